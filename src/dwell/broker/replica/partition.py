"""One broker's replica of one partition: its log and, while the broker leads, its followers and its high watermark.

The high watermark is the first offset that is not yet safe: everything below it is on every in-sync replica. It is the
minimum of the log ends of the ISR, and of replicas that are caught up and about to join it, and it stands still while
fewer than min.insync.replicas are in sync.

    leader 0   log end 7     ISR 0, 1, 2     high watermark 4, because replica 2 has fetched up to 4
    replica 1  log end 7
    replica 2  log end 4     after replica.lag.time.max.ms it leaves the ISR: high watermark 7

Partition objects are the keys that requests wait for. Each change that can satisfy or doom a request calls one of the
two checks at the end of this file, which go through the agenda:

    appended                 check_followers     follower fetches
    high watermark moved     check_waiting       produce, fetch, delete_records
    ISR, leader, log start, deletion             both
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dwell.broker.config import TopicConfig
from dwell.broker.controller.image import NO_LEADER, PartitionImage
from dwell.broker.log.log import Log
from dwell.broker.record.batch import Batch
from dwell.broker.replica.fetcher import ReplicaFetcher
from dwell.broker.replica.follower import Follower
from dwell.broker.wire.error import Error
from dwell.timer import TimerTask

if TYPE_CHECKING:
    from dwell.broker.broker import Broker

# Events kept per partition, for `timeline`.
HISTORY = 1_000
# A member of an enum costs ten times a global: this one is needed for every produce.
NO_ERROR = Error.NONE


class Partition:
    """Compared and hashed by identity: a topic that is deleted and created again has other partitions."""

    __slots__ = (
        "_check_followers_put",
        "_check_waiting_put",
        "_shrink_task",
        "broker",
        "config",
        "epoch_start",
        "fetcher",
        "followers",
        "high_position",
        "high_watermark",
        "history",
        "image",
        "index",
        "is_deleted",
        "is_leader",
        "is_under_min_isr",
        "log",
        "max_lag_ms",
        "name",
        "pending_isr",
        "topic",
        "topic_id",
    )

    def __init__(self, broker: Broker, image: PartitionImage, topic_id: bytes, config: TopicConfig, log: Log) -> None:
        self.broker = broker
        self.topic = image.topic
        self.topic_id = topic_id
        self.index = image.index
        self.name = f"{image.topic}-{image.index}"
        self.config = config
        self.log = log
        # Leader, ISR and epochs as this broker has last seen them.
        self.image = image
        self.is_leader = False
        self.is_deleted = False
        # Fewer in-sync replicas than acks=all needs: it is refused, and the high watermark stands still.
        self.is_under_min_isr = False
        self.high_watermark = log.start_offset
        # Bytes below the high watermark, on the log's scale: a waiting fetch subtracts its own position.
        self.high_position = log.position(log.start_offset)
        # Other replicas by broker id; empty unless leading.
        self.followers: dict[int, Follower] = {}
        # The log end when this broker became leader: who joins the ISR must have got that far.
        self.epoch_start = 0
        # The ISR asked of the controller and not yet granted.
        self.pending_isr: tuple[int, ...] | None = None
        self.max_lag_ms: int = broker.host.config["replica.lag.time.max.ms"]
        self.fetcher = ReplicaFetcher(self)
        # What happened while requests waited, oldest first: (ms, what, replica, offset).
        self.history: deque[tuple[int, str, int, int]] = deque(maxlen=HISTORY)
        self._shrink_task: TimerTask | None = None
        self._check_followers_put = False
        self._check_waiting_put = False

    # What the metadata says

    def apply(self, image: PartitionImage) -> None:
        """Take the role that the metadata gives this broker."""
        old, self.image = self.image, image
        self.is_under_min_isr = len(image.isr) < self.min_insync
        leads = image.leader == self.broker.id
        if leads and (not self.is_leader or image.leader_epoch != old.leader_epoch):
            self._become_leader()
        elif leads:
            self._isr_changed()
        elif self.is_leader or image.leader_epoch != old.leader_epoch or not self.fetcher.is_started:
            self._become_follower()

    def delete(self) -> None:
        """The topic is gone, or this broker no longer holds a replica."""
        self.is_deleted = True
        self._stop_leading()
        self.fetcher.stop()
        self.check_followers()
        self.check_waiting()

    def stop(self) -> None:
        """The broker is down: nothing moves until it is back."""
        self._stop_leading()
        self.fetcher.stop()

    def _become_leader(self) -> None:
        self.fetcher.stop()
        self.is_leader = True
        self.pending_isr = None
        self.epoch_start = self.log.end_offset
        self.log.epochs.assign(self.image.leader_epoch, self.epoch_start)
        now_ms = self.broker.now_ms()
        # In-sync replicas have the time of a full lag to show themselves.
        self.followers = {replica: Follower(now_ms) for replica in self.image.replicas if replica != self.broker.id}
        self.history.append((now_ms, "leader", self.broker.id, self.image.leader_epoch))
        self.watch_lag()
        self.maybe_move_high_watermark()
        self.check_followers()
        self.check_waiting()
        self.broker.host.leader_ready(self)

    def _become_follower(self) -> None:
        self._stop_leading()
        self.check_followers()
        self.check_waiting()
        self.fetcher.start()

    def _stop_leading(self) -> None:
        self.is_leader = False
        self.followers = {}
        self.pending_isr = None
        if self._shrink_task is not None:
            self._shrink_task.cancel()
            self._shrink_task = None

    def _isr_changed(self) -> None:
        self.pending_isr = None
        replicas = {replica for replica in self.image.replicas if replica != self.broker.id}
        now_ms = self.broker.now_ms()
        for replica in replicas - self.followers.keys():
            self.followers[replica] = Follower(now_ms)
        for replica in self.followers.keys() - replicas:
            del self.followers[replica]
        self.watch_lag()
        self.maybe_move_high_watermark()
        self.grow_isr()
        # A smaller ISR can leave acks=all requests with too few replicas; a larger one can end that.
        self.check_waiting()

    # Leading: appends

    @property
    def min_insync(self) -> int:
        """A topic cannot need more replicas than it has."""
        return min(self.config.min_insync, len(self.image.replicas))

    @property
    def last_stable_offset(self) -> int:
        """What read_committed consumers may read: without open transactions, all below the high watermark."""
        return self.high_watermark

    def append(self, batch: Batch) -> None:
        """Append a batch as leader: it gets its offsets here."""
        if self.config.log_append_time:
            batch.stamp(self.broker.host.wall_ms())
        batch.place(self.log.end_offset, self.image.leader_epoch)
        self.log.append(batch)
        if self.followers:
            if self._shrink_task is None:
                self.watch_lag()
            self.check_followers()
        self.maybe_move_high_watermark()

    def reached(self, offset: int) -> Error | None:
        """Whether acks=all up to `offset` is decided: None if not yet, else with which error."""
        if self.is_leader and not self.is_deleted:
            if self.high_watermark < offset:
                return None
            return Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND if self.is_under_min_isr else NO_ERROR
        return Error.UNKNOWN_TOPIC_OR_PARTITION if self.is_deleted else Error.NOT_LEADER_OR_FOLLOWER

    # Leading: followers

    def follower_fetched(self, replica: int, offset: int, log_start: int) -> None:
        """A follower fetches at `offset`: it has everything before. Can move the high watermark and grow the ISR."""
        follower = self.followers[replica]
        now_ms = self.broker.now_ms()
        moved = offset != follower.log_end
        low_moved = log_start != follower.log_start
        follower.fetched(offset, log_start, self.log.end_offset, now_ms)
        if moved and self.broker.host.parked:
            self.history.append((now_ms, "fetched", replica, offset))
        if replica not in self.image.isr:
            self._maybe_join_isr(replica, follower)
        if moved:
            self.maybe_move_high_watermark()
        if low_moved:
            self.check_waiting()

    def _maybe_join_isr(self, replica: int, follower: Follower) -> None:
        if (
            self.pending_isr is None
            and follower.log_end >= self.high_watermark
            and follower.log_end >= self.epoch_start
            and self.broker.image.alive(replica)
        ):
            self._ask_for_isr((*self.image.isr, replica))

    def grow_isr(self) -> None:
        """Let caught-up followers join that could not before; their fetches wait here and will not tell us again."""
        for replica, follower in self.followers.items():
            if follower.waiting and replica not in self.image.isr:
                self._maybe_join_isr(replica, follower)

    def _ask_for_isr(self, isr: Iterable[int]) -> None:
        if not self.broker.is_reachable:
            return  # the controller does not hear it
        wanted = set(isr)
        self.pending_isr = tuple(replica for replica in self.image.replicas if replica in wanted)
        self.broker.host.controller.alter_isr(self.broker.id, self.image, self.pending_isr)

    def isr_refused(self) -> None:
        """The controller did not grant what was asked: the metadata has moved on, or will."""
        self.pending_isr = None

    def maybe_move_high_watermark(self) -> bool:
        """Raise the high watermark as far as the replicas allow."""
        if not self.is_leader or self.is_under_min_isr:
            return False
        reached = self.log.end_offset
        if self.followers:
            isr = self.image.isr
            pending = self.pending_isr
            now_ms = -1
            for replica, follower in self.followers.items():
                if follower.log_end < reached:
                    counts = replica in isr or (pending is not None and replica in pending)
                    if not counts:
                        now_ms = self.broker.now_ms() if now_ms < 0 else now_ms
                        counts = self._is_about_to_join(replica, follower, now_ms)
                    if counts:
                        reached = follower.log_end
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        self.high_position = self.log.end_position if reached == self.log.end_offset else self.log.position(reached)
        if self.broker.host.parked:
            self.history.append((self.broker.now_ms(), "high watermark", self.broker.id, reached))
        self.check_waiting()
        return True

    def counts(self, replica: int, follower: Follower) -> bool:
        """Whether the high watermark waits for a follower."""
        return (
            replica in self.image.isr
            or (self.pending_isr is not None and replica in self.pending_isr)
            or self._is_about_to_join(replica, follower, self.broker.now_ms())
        )

    def _is_about_to_join(self, replica: int, follower: Follower, now_ms: int) -> bool:
        """Caught up, alive, not yet in sync: what it lacks must not become visible and then be missing."""
        return (
            follower.log_end >= self.epoch_start
            and follower.log_end >= self.high_watermark
            and self.broker.image.alive(replica)
            and follower.is_caught_up(self.log.end_offset, now_ms, self.max_lag_ms)
        )

    def restore_high_watermark(self, offset: int) -> None:
        """After a restart: where it was, as far as the log goes."""
        self._set_high_watermark(max(self.log.start_offset, min(offset, self.log.end_offset)))

    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        self.high_position = self.log.position(offset)

    # Leading: followers that fall behind

    def watch_lag(self) -> None:
        """Look again when the first follower that is behind and holds the others up has been so for too long."""
        if not self.is_leader:
            return
        now_ms = self.broker.now_ms()
        behind = [
            now_ms if follower.waiting else follower.caught_up_ms
            for replica, follower in self.followers.items()
            if follower.log_end < self.log.end_offset
            and (replica in self.image.isr or self._is_about_to_join(replica, follower, now_ms))
        ]
        if self._shrink_task is not None:
            self._shrink_task.cancel()
            self._shrink_task = None
        if behind:
            # One more: a follower is out when it was behind for *longer* than the limit.
            due_ms = max(0, min(behind) + self.max_lag_ms + 1 - now_ms)
            self._shrink_task = self.broker.host.schedule(due_ms, self._shrink_isr)

    def _shrink_isr(self) -> None:
        self._shrink_task = None
        if not self.is_leader:
            return
        now_ms = self.broker.now_ms()
        slow = {
            replica
            for replica, follower in self.followers.items()
            if replica in self.image.isr and not follower.is_caught_up(self.log.end_offset, now_ms, self.max_lag_ms)
        }
        if slow and self.pending_isr is None:
            self._ask_for_isr(replica for replica in self.image.isr if replica not in slow)
        elif not slow:
            # One that was about to join may have been too slow.
            self.maybe_move_high_watermark()
            self.watch_lag()

    # Deleting records

    @property
    def low_watermark(self) -> int:
        """The lowest log start of the living replicas: what lies before it is gone everywhere."""
        alive = self.broker.image.alive
        return min(
            [self.log.start_offset, *(one.log_start for replica, one in self.followers.items() if alive(replica))]
        )

    def delete_before(self, offset: int) -> None:
        """Move the log start as leader; followers learn it by their next fetch."""
        if self.log.delete_before(offset):
            self._set_high_watermark(max(self.high_watermark, offset))
            self.history.append((self.broker.now_ms(), "log start", self.broker.id, offset))
            self.check_followers()
            self.check_waiting()

    # Following

    def append_fetched(self, batches: list[Batch], leader_high: int, leader_start: int) -> None:
        """Append what the leader sent; the high watermark follows the leader's, as far as this log goes."""
        log = self.log
        for batch in batches:
            log.append(batch)
        if leader_start > log.start_offset:
            log.delete_before(leader_start)
        high = min(leader_high, log.end_offset)
        if high > self.high_watermark:
            self._set_high_watermark(high)

    def start_over(self, offset: int) -> None:
        """Drop everything and go on at `offset`."""
        self.log.reset(offset)
        self._set_high_watermark(offset)

    def truncate(self, offset: int) -> None:
        """Drop what the leader never had."""
        if self.log.truncate_to(offset):
            self.history.append((self.broker.now_ms(), "truncated", self.broker.id, self.log.end_offset))
            self._set_high_watermark(min(self.high_watermark, self.log.end_offset))

    # Checks

    def check_followers(self) -> None:
        """Try the follower fetches that wait at this partition, from the agenda, once for many appends."""
        if not self._check_followers_put:
            self._check_followers_put = True
            self.broker.host.agenda.put(self._check_followers)

    def check_waiting(self) -> None:
        """Try the clients' requests that wait for this partition, from the agenda, once for many changes."""
        if not self._check_waiting_put and self.broker.host.is_waited_for:
            self._check_waiting_put = True
            self.broker.host.agenda.put(self._check_waiting)

    def _check_followers(self) -> None:
        self._check_followers_put = False
        self.broker.check("replica_fetch", self)

    def _check_waiting(self) -> None:
        self._check_waiting_put = False
        self.broker.host.poke()
        self.broker.check("produce", self)
        self.broker.check("delete_records", self)
        # On the agenda again: the produces that are done now are answered before the fetches are read.
        self.broker.host.agenda.put(self._check_fetches)

    def _check_fetches(self) -> None:
        self.broker.check("fetch", self)

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "no leader" if self.image.leader == NO_LEADER else "follower"
        return f"<{self.name} on broker {self.broker.id}, {role}, {self.log.start_offset}..{self.log.end_offset}>"
