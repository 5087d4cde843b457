"""Who waits for which key: the watcher lists, the checks, the purge, and the counts.

This is the reference. `_core.pyx` is its compiled twin: the same behaviour on arrays, under one test suite.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable

from dwell.clock import Clock
from dwell.errors import Closed, InvalidArgument, InvalidType
from dwell.purgatory.action_queue import ACTIONS
from dwell.purgatory.operation import DelayedOperation
from dwell.purgatory.statistic import PurgatoryStatistics, place_of
from dwell.purgatory.watcher_list import Shard, Watch
from dwell.timer import LATENESS_BOUNDS_MS, Timer

# As many as Kafka has: enough that threads seldom meet on one lock.
SHARDS = 512
# 2^64 divided by the golden ratio, the usual multiplier; of the 64-bit product the top nine bits count.
MIX = 0x9E3779B97F4A7C15
SHARD_SHIFT = 55


class PurgatoryCore:
    """Lock order: an operation's lock, then a shard's, then the timer's.

    Callbacks run under the operation's lock only. Under a shard's lock runs what a look into a dictionary may run: the
    `__eq__` and `__hash__` of keys.
    """

    def __init__(self, name: str, timer: Timer, clock: Clock, purge_interval: int) -> None:
        self.name = name
        self.timer = timer
        self.clock = clock
        self.purge_interval = purge_interval
        self._closed = False
        self._purges_when_watching = False
        self._shards = [Shard() for _ in range(SHARDS)]
        # Guards the numbers below.
        self._count = threading.Lock()
        self._estimated_total = 0
        self._completed = self._expired = self._cancelled = self._purged = 0
        self._waits = [0] * (len(LATENESS_BOUNDS_MS) + 1)
        self._lateness = [0] * (len(LATENESS_BOUNDS_MS) + 1)
        self._waited_ms = self._late_ms = 0

    def try_complete_else_watch(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        """Complete `operation`, or let it wait for its keys and for its time. True if this call completed it.

        It is tried once, then watched on every key, then tried once more: the condition may have come true before it
        was on all lists, and whoever made it true has not seen it there. Any thread may call.
        """
        if not isinstance(operation, DelayedOperation):
            raise InvalidType(f"watch takes a DelayedOperation, not {type(operation).__name__}: {operation!r}")
        if isinstance(watch_keys, (str, bytes)):
            raise InvalidType(f"watch_keys must be a list of keys, not one key: {watch_keys!r}")
        # A key that is named twice is watched once.
        keys = dict.fromkeys(watch_keys)
        if not keys:
            raise InvalidArgument("watch_keys must not be empty: nothing could ever complete the operation")
        if self._closed:
            raise Closed(f"the purgatory {self.name!r} is closed; it takes no more operations")
        if operation._completed:
            return False
        operation._purgatory = self
        operation._cancel_counted = False
        if operation._safe_try_complete_or_else(lambda: self._watch(operation, keys)):
            return True
        if not operation._completed:
            self._start_timer(operation)
        if self._purges_when_watching:
            self._purge_if_worth_it()
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try what waits for `key`; returns how many operations this completed. Any thread may call.

        From inside a callback of an operation the check is put off until that callback has returned, and 0 is returned.
        """
        if ACTIONS.busy_with is None:
            return self._check_key(key)
        ACTIONS.put(lambda: self._check_key(key))
        return 0

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Take away the key's list and stop the clocks of those on it, without completing them; returns them.

        They stay on the lists of their other keys, as in Kafka, and may yet be completed through these.
        """
        taken = self._shard(key).take(key)
        for operation in taken:
            self._cancelled_one(operation)
        return taken

    def cancel(self, operation: DelayedOperation) -> bool:
        """Take `operation` out without completing it: its clock stops, no key knows it any more. True if it waited."""
        if operation._completed or not operation._unwatch():
            return False
        self._cancelled_one(operation)
        return True

    @property
    def watched(self) -> int:
        """How many watches the lists of all keys hold, also of completed operations until walked or purged. O(keys)."""
        return sum(len(shard) for shard in self._shards)

    @property
    def num_delayed(self) -> int:
        """How many operations wait for their time: the size of the timer."""
        return self.timer.size

    def purge(self) -> int:
        """Drop what completed operations left on the lists, and keys nobody watches; returns how many watches went."""
        with self._count:
            self._estimated_total = self.timer.size
        purged = sum(shard.purge() for shard in self._shards)
        with self._count:
            self._purged += purged
        return purged

    def statistics(self) -> PurgatoryStatistics:
        """A frozen snapshot. O(keys)."""
        watched, delayed = self.watched, self.num_delayed
        with self._count:
            return PurgatoryStatistics(
                name=self.name,
                watched=watched,
                delayed=delayed,
                completed=self._completed,
                expired=self._expired,
                cancelled=self._cancelled,
                purged=self._purged,
                waits=tuple(self._waits),
                waited_ms=self._waited_ms,
                lateness=tuple(self._lateness),
                late_ms=self._late_ms,
            )

    # Called by the driver

    def _purge_if_worth_it(self) -> None:
        """What was watched since the last purge, and no longer waits for its time, has probably left watches behind."""
        if self._estimated_total - self.timer.size > self.purge_interval:
            self.purge()

    def _take_all(self) -> list[DelayedOperation]:
        """Everything that waits, taken off all lists."""
        taken = {id(operation): operation for shard in self._shards for operation in shard.take_all()}
        return list(taken.values())

    def _stop_clocks(self) -> None:
        """Take everything that waits out of the timer, but not off its keys."""
        for shard in self._shards:
            for operation in shard.operations():
                operation.cancel()

    # Called by operations

    def _count_settled(self, operation: DelayedOperation, expired: bool) -> None:
        started_ms = operation._started_ms
        now_ms = 0 if started_ms is None else self.clock.now_ms()
        waited_ms = 0 if started_ms is None else max(0, now_ms - started_ms)
        with self._count:
            self._waits[place_of(waited_ms)] += 1
            self._waited_ms += waited_ms
            if expired:
                late_ms = max(0, waited_ms - max(0, operation.delay_ms))
                self._expired += 1
                self._lateness[place_of(late_ms)] += 1
                self._late_ms += late_ms
            else:
                self._completed += 1

    def _report(self, error: BaseException, source: object) -> None:
        """User code raised; the driver tells the handler."""

    # Inside

    def _shard(self, key: Hashable) -> Shard:
        # Mixed: a shard whose keys agree in the low bits of their hashes would be a dictionary full of collisions.
        return self._shards[hash(key) * MIX >> SHARD_SHIFT & SHARDS - 1]

    def _watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        watch = operation._watch
        if watch is None:
            watch = operation._watch = Watch(operation)
        try:
            for key in keys:
                if operation._completed:
                    break
                self._shard(key).watch(key, watch)
        except BaseException:  # the `__eq__` of a key
            self._take_out(operation)
            raise
        with self._count:
            self._estimated_total += 1
        if operation._completed:
            # Claimed by a thread that saw no watch to empty.
            watch.operation = None

    def _start_timer(self, operation: DelayedOperation) -> None:
        operation._started_ms = self.clock.now_ms()
        try:
            self.timer.add(operation)
        except BaseException:
            self._take_out(operation)
            raise
        if operation._completed:
            operation.cancel()
        elif self._closed and self.cancel(operation):
            raise Closed(f"the purgatory {self.name!r} was closed; it takes no more operations")

    def _check_key(self, key: Hashable) -> int:
        shard = self._shard(key)
        found = shard.find(key)
        if found is None:
            return 0
        watchers, operations = found
        completed = sum(operation.safe_try_complete() for operation in operations)
        shard.tidy(watchers)
        return completed

    def _take_out(self, operation: DelayedOperation) -> None:
        operation._unwatch()
        operation.cancel()

    def _cancelled_one(self, operation: DelayedOperation) -> None:
        operation.cancel()
        with self._count:
            # By each of its keys, and once more by itself: it is one operation.
            self._cancelled += not operation._cancel_counted
            operation._cancel_counted = True
        operation._tell_observer("cancelled")

    def _check(self) -> None:
        """Assert every invariant; for tests, while nothing else runs."""
        for shard in self._shards:
            for watchers in shard:
                assert shard is self._shard(watchers.key)
                assert None not in watchers.watches, "a purge left a hole"
                present = {id(watch) for watch in watchers.watches}
                for operation in watchers.operations():
                    assert not operation._completed, "a list keeps a completed operation alive"
                    assert id(operation._watch) in present
                    assert operation._purgatory is not None
