"""A follower's fetch that waits at the leader for the next append."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dwell.broker.wire.error import Error
from dwell.purgatory import DelayedOperation

if TYPE_CHECKING:
    from dwell.broker.record.batch import Batch
    from dwell.broker.replica.fetcher import ReplicaFetcher
    from dwell.broker.replica.partition import Partition


# What one fetch of a follower returns at most: a bound for one step of the agenda. References, not copies.
MAX_FETCH_BYTES = 64 * 1024 * 1024


class Fetched(NamedTuple):
    """The leader's answer to a follower."""

    error: Error
    batches: list[Batch]
    high_watermark: int
    log_start: int
    # The leader's largest epoch at or below the follower's last, and where it ends: only if the logs differ.
    diverging: tuple[int, int] | None = None


class DelayedReplicaFetch(DelayedOperation):
    """Completes when the leader's log goes on after `offset` or starts later, or when the leader is none any more."""

    __slots__ = ("fetcher", "last_epoch", "leader", "log_start", "offset", "replica")

    def __init__(self, fetcher: ReplicaFetcher, leader: Partition, offset: int, epoch: int) -> None:
        super().__init__(leader.broker.host.follower_wait_ms)
        self.fetcher = fetcher
        self.leader = leader
        self.offset = offset
        self.replica = fetcher.partition.broker.id
        # The epoch of the follower's last batch.
        self.last_epoch = epoch
        self.log_start = leader.log.start_offset

    def start(self) -> None:
        """Tell the leader how far the follower is; that alone may move the high watermark. Then read or wait."""
        leader = self.leader
        # A follower that has just fetched from this leader cannot have diverged from it.
        diverging = None if self.fetcher.agrees_with is leader else self.diverging()
        log = leader.log
        if diverging is None and log.start_offset <= self.offset <= log.end_offset:
            leader.follower_fetched(self.replica, self.offset, self.fetcher.partition.log.start_offset)
            if (
                self.offset == log.end_offset
                and self.fetcher.partition.log.start_offset >= log.start_offset
                and leader.is_leader
            ):
                leader.followers[self.replica].waiting = True
                leader.broker.purgatory("replica_fetch").try_complete_else_watch(self, (leader,))
                return
        leader.broker.host.agenda.put(partial(self.fetcher.receive, self, self.read(diverging)))

    def try_complete(self) -> bool:
        leader = self.leader
        log = leader.log
        if log.end_offset > self.offset or log.start_offset != self.log_start or not leader.is_leader:
            return self.force_complete()
        return False

    def on_complete(self) -> None:
        self.stop_waiting()
        self.leader.broker.host.agenda.put(self.hand_over)

    def cancel_wait(self) -> None:
        """Give up: the follower stops, or follows somebody else."""
        if self.leader.broker.purgatory("replica_fetch").cancel(self):
            self.stop_waiting()

    def stop_waiting(self) -> None:
        follower = self.leader.followers.get(self.replica)
        if follower is not None and follower.waiting:
            follower.waiting = False
            # Up to now it had everything.
            follower.caught_up_ms = self.leader.broker.now_ms()

    def hand_over(self) -> None:
        self.fetcher.receive(self, self.read(None))

    def diverging(self) -> tuple[int, int] | None:
        if self.last_epoch < 0:
            return None
        leader = self.leader
        epoch, end = leader.log.epochs.end_offset(self.last_epoch, leader.log.end_offset)
        return (epoch, end) if epoch < self.last_epoch or end < self.offset else None

    def read(self, diverging: tuple[int, int] | None) -> Fetched:
        leader = self.leader
        log = leader.log
        if not leader.is_leader:
            return Fetched(Error.NOT_LEADER_OR_FOLLOWER, [], 0, 0)
        if diverging is not None:
            return Fetched(Error.NONE, [], leader.high_watermark, log.start_offset, diverging)
        if not log.start_offset <= self.offset <= log.end_offset:
            return Fetched(Error.OFFSET_OUT_OF_RANGE, [], leader.high_watermark, log.start_offset)
        batches = log.read(self.offset, log.end_offset, MAX_FETCH_BYTES, True)
        return Fetched(Error.NONE, batches, leader.high_watermark, log.start_offset)
