"""A follower's loop: fetch from the leader, append, fetch again.

The fetch goes through the leader's purgatory `replica_fetch`, in process: with nothing to read it waits there until the
leader appends. `lag` is a pause before the next fetch and `freeze` means that there is none. Since a fetch at offset n
tells the leader that the follower has everything before n, a lagging follower holds back the high watermark by one
pause, as a slow disk or network would.

There is one loop per partition and follower, not one per pair of brokers as in Kafka: in process a request costs
nothing, and an append wakes only those who follow this partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.broker.delayed.replica_fetch import DelayedReplicaFetch, Fetched
from dwell.broker.log.epoch import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from dwell.broker.wire.error import Error
from dwell.timer import TimerTask

if TYPE_CHECKING:
    from dwell.broker.replica.partition import Partition


class ReplicaFetcher:
    __slots__ = ("_operation", "_pause", "agrees_with", "is_started", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.is_started = False
        # The leader that has accepted the end of this log as an earlier state of its own.
        self.agrees_with: Partition | None = None
        self._operation: DelayedReplicaFetch | None = None
        self._pause: TimerTask | None = None

    def start(self) -> None:
        """Follow the leader of the current metadata."""
        self.stop()
        self.is_started = True
        self.step()

    def stop(self) -> None:
        self.is_started = False
        self.agrees_with = None
        self.interrupt()

    def interrupt(self) -> None:
        """Give up the fetch or the pause that is going on; `step` goes on."""
        operation, self._operation = self._operation, None
        if operation is not None:
            operation.cancel_wait()
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    @property
    def fetches_from(self) -> Partition | None:
        """The leader whose answer is awaited."""
        return None if self._operation is None else self._operation.leader

    @property
    def is_busy(self) -> bool:
        return self._operation is not None or self._pause is not None

    def step(self) -> None:
        """Fetch, unless something keeps this broker or the leader from it. Whoever removes the obstacle calls again."""
        partition = self.partition
        broker = partition.broker
        if not self.is_started or self.is_busy or not broker.is_fetching:
            return
        leader = broker.host.leader_of(partition)
        if leader is None:
            return
        log = partition.log
        operation = DelayedReplicaFetch(self, leader, log.end_offset, log.epochs.last)
        self._operation = operation
        operation.start()

    def receive(self, operation: DelayedReplicaFetch, fetched: Fetched) -> None:
        """The leader's answer, from the agenda."""
        if operation is not self._operation:
            return  # interrupted meanwhile
        self._operation = None
        partition = self.partition
        log = partition.log
        if fetched.error is Error.OFFSET_OUT_OF_RANGE:
            # The leader has deleted what this log ends with, or never had it.
            partition.start_over(fetched.log_start)
            partition.append_fetched([], fetched.high_watermark, fetched.log_start)
        elif fetched.error is not Error.NONE:
            # Not the leader any more. The next one may be ready already; if not, it or new metadata will call.
            self.step()
            return
        elif fetched.diverging is not None:
            before = log.end_offset, log.epochs.last
            partition.truncate(self._truncation_offset(*fetched.diverging))
            if before == (log.end_offset, log.epochs.last):
                raise AssertionError(f"{partition!r} cannot be brought in line with its leader's epochs")
        else:
            self.agrees_with = operation.leader
            partition.append_fetched(fetched.batches, fetched.high_watermark, fetched.log_start)
        self._pause_or_step()

    def _pause_or_step(self) -> None:
        broker = self.partition.broker
        if broker.lag_ms:
            self._pause = broker.host.schedule(broker.lag_ms, self._go_on)
        else:
            self.step()

    def pause_again(self) -> None:
        """The lag has become shorter: a pause that is going on starts anew."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self._pause_or_step()

    def _go_on(self) -> None:
        self._pause = None
        self.step()

    def _truncation_offset(self, leader_epoch: int, leader_end: int) -> int:
        """Where this log and the leader's part, as far as one answer tells. Kafka's rule; the next fetch tells more."""
        log = self.partition.log
        if leader_end == UNKNOWN_OFFSET:
            return self.partition.high_watermark
        epoch, end = log.epochs.end_offset(leader_epoch, log.end_offset)
        if leader_epoch == UNKNOWN_EPOCH or end == UNKNOWN_OFFSET:
            return leader_end
        return end if epoch != leader_epoch else min(end, leader_end)
