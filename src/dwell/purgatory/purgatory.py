"""Where operations wait for their keys or their time.

**The life of an operation.** `try_complete_else_watch` tries it, puts it on the list of each of its keys, tries it
again, and starts its clock. From then on it waits for the first of three things: somebody calls `check_and_complete`
for one of its keys and the condition holds; its time runs out; somebody calls `force_complete`. Each of them may come
from any thread, several at once. One of them claims the operation, and only that one calls back.

**Why it is tried twice.** The thread that makes the condition true changes some state and then calls
`check_and_complete`. If it does both before the operation is on the list, the check finds nobody. But then the state
was changed before the second try, and the second try sees it. If the operation is on the list first, the check finds
it. There is no third case.

**Locks.** Three kinds, always taken in this order:

1. The *operation's lock*, its own or the one it was made with, is held over `try_complete` and `on_complete`, the only
   code of users that runs under a lock of ours. So `on_complete` never runs while another thread tries, and no two
   threads try at once. A thread that finds the lock taken waits for it. Giving up instead would lose completions: the
   thread inside may have read the state just before it was changed.
2. The *lock of the map* from keys to lists is held for one look at the map or one change of a list. The `__hash__` and
   `__eq__` of keys run under it, callbacks do not: a check copies the list, gives the lock back, and then tries.
3. The *timer's lock*, held by the timer for one change of its wheels.

Each operation also has a small lock for its own fields, and so have the counts; nothing else is taken under these.

**Why completions are queued.** `on_complete` of one operation often makes another one completable: a produce moves the
high watermark, which completes fetches. If the second were completed inside the callback of the first, its lock would
be taken with the first still held. Another thread doing the same in the opposite order would wait for ever, and a chain
of ten thousand operations would need ten thousand stack frames. So inside a callback `check_and_complete` only makes a
note and returns 0, `force_complete` of another operation claims it and leaves its callbacks for later, and the thread
does all of this after the callbacks have returned and the lock is free (`action_queue.py`).

**What a caller must not hold.** `check_and_complete` waits for the locks of the operations that it tries. Suppose a
thread calls it while it holds a lock L, and `try_complete` or `on_complete` of one of these operations takes L. Then it
can meet a second thread that is inside that callback: the first has L and waits for the operation's lock, the second
has the operation's lock and waits for L. So change the state under your lock, release it, and check afterwards. Two
kinds of locks are harmless: one that no callback takes, and the very lock that the operations were made with (`lock=`),
if it is re-entrant. The same is true of `try_complete_else_watch`, `force_complete` and `close("expire")`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Self, SupportsIndex

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, ErrorHandler, InvalidArgument, InvalidType, log_error, report
from dwell.number import at_least
from dwell.purgatory.action_queue import ACTIONS
from dwell.purgatory.close_policy import ClosePolicy, check_policy
from dwell.purgatory.operation import DelayedOperation
from dwell.purgatory.statistics import Counts, Outcome, PurgatoryStatistics
from dwell.purgatory.watch_map import WatchMap
from dwell.reaper import POLL_MS, Reaper
from dwell.timer import InlineExecutor, SystemTimer, Timer, TimerTask


class Purgatory:
    """Where operations wait for their keys or their time; each is completed exactly once. A context manager.

    Time runs out by itself, on a thread, unless `reaper=False`: then call `advance`, or pass a `timer` that is driven
    elsewhere, such as a `LoopTimer`. Without `timer` the purgatory makes one; each purgatory should have its own.
    """

    def __init__(
        self,
        name: str,
        *,
        timer: Timer | None = None,
        clock: Clock | None = None,
        purge_interval: SupportsIndex = 1000,
        reaper: bool = True,
        on_error: ErrorHandler | None = None,
    ) -> None:
        self._purge_interval = at_least("purge_interval", purge_interval, 0)
        self._on_error = log_error if on_error is None else on_error
        self._name = name
        self._owns_timer = timer is None
        self._clock, self._timer = clock_and_timer(name, clock, timer, reaper, self._on_error)
        # Nobody may ever call `advance` on a purgatory whose timer is driven elsewhere.
        self._purges_when_watching = not reaper and not self._owns_timer
        self._watches = WatchMap()
        self._counts = Counts()
        # The operations watched since the last purge, and those that waited then. Guarded by the lock.
        self._estimated_total = 0
        self._closed = False
        self._lock = threading.Lock()
        self._reaper = self._start_reaper() if reaper else None

    @property
    def name(self) -> str:
        """The name that statistics, threads and errors show."""
        return self._name

    @property
    def timer(self) -> Timer:
        """Where the clocks of operations run."""
        return self._timer

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self._clock

    @property
    def purge_interval(self) -> int:
        """How many operations may be estimated to have left watches behind before a purge."""
        return self._purge_interval

    def try_complete_else_watch(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        """Complete `operation`, or let it wait for its keys and for its time. True if this call completed it.

        It is tried, put on the list of each key, and tried once more. Any thread may call.
        """
        if not isinstance(operation, DelayedOperation):
            raise InvalidType(f"operation must be a DelayedOperation, not {type(operation).__name__}: {operation!r}")
        keys = unique(watch_keys)
        if self._closed:
            raise Closed(f"the purgatory {self.name!r} is closed; it takes no more operations")
        if operation.is_completed:
            return False
        operation._let_in(self)
        if operation._try_or_watch(lambda: self._watch(operation, keys)):
            return True
        if not operation.is_completed:
            self._start_clock(operation)
        if self._purges_when_watching:
            self._purge_if_worth_it()
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that wait for `key`; returns how many this completed. Any thread may call.

        Inside a callback of an operation the check is put off until that callback has returned, and 0 is returned.
        Hold no lock that a callback takes: see the head of this module.
        """
        if ACTIONS.busy_with is None:
            return self._check_key(key)
        ACTIONS.put(lambda: self._check_key(key))
        return 0

    def cancel(self, operation: DelayedOperation) -> bool:
        """The same as `operation.cancel()`: take it out without completing it. True if it waited."""
        return operation.cancel()

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Forget `key` and stop the clocks of the operations that waited for it, without completing; returns them.

        They stay on the lists of their other keys, as in Kafka, and may yet be completed through these.
        """
        taken = self._watches.take(key)
        for operation in taken:
            operation._count_cancelled()
        return taken

    @property
    def watched(self) -> int:
        """How many watches all keys have, including those of completed operations until they are checked or purged."""
        return len(self._watches)

    @property
    def num_delayed(self) -> int:
        """How many operations wait for their time: the size of the timer."""
        return self.timer.size

    def advance(self, timeout_ms: SupportsIndex = 0) -> bool:
        """Wait up to `timeout_ms` for operations to run out of time, expire them, and purge if it is worth it.

        The reaper's work, for a purgatory made with `reaper=False`. False if nothing came due.
        """
        advanced = self.timer.advance_clock(at_least("timeout_ms", timeout_ms, 0))
        self._purge_if_worth_it()
        return advanced

    def purge(self) -> int:
        """Drop the watches that completed operations left behind, and keys without watches; returns how many watches.

        Called by itself when more than `purge_interval` operations are estimated to have left some.
        """
        with self._lock:
            self._estimated_total = self.timer.size
        purged = self._watches.purge()
        self._counts.count_purged(purged)
        return purged

    def statistics(self) -> PurgatoryStatistics:
        """A frozen snapshot."""
        return self._counts.snapshot(name=self.name, watched=self.watched, delayed=self.num_delayed)

    async def wait(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        """Watch `operation` and wait for its outcome: True if it completed, False if its time ran out.

        Returns after the operation's callbacks have, whichever thread runs them. Raises `asyncio.CancelledError` if the
        operation is cancelled in the purgatory; the other way round, a cancelled wait cancels its operation.
        """
        loop = asyncio.get_running_loop()
        loop_thread = threading.get_ident()
        future: asyncio.Future[bool] = loop.create_future()

        def settle(outcome: Outcome) -> None:
            if not future.done():
                future.cancel() if outcome == "cancelled" else future.set_result(outcome == "completed")

        def observe(outcome: Outcome) -> None:
            if threading.get_ident() == loop_thread:
                settle(outcome)
            else:
                loop.call_soon_threadsafe(settle, outcome)

        outcome = operation._observe(observe)
        if outcome is not None:
            return outcome == "completed"
        try:
            if not operation.is_completed:
                self.try_complete_else_watch(operation, watch_keys)
            return await future
        except asyncio.CancelledError:
            operation.cancel()
            raise
        finally:
            operation._stop_observing()

    def close(self, policy: ClosePolicy = "cancel") -> None:
        """Take no more operations, end the reaper, and settle what still waits; a second call does nothing.

        `"cancel"` takes what waits out without completing it, `"expire"` lets it expire now, in this thread, and
        `"leave"` stops its clocks and leaves it to its keys. An expiry that the timer handed over before still runs.
        """
        check_policy(policy)
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # A timer that was passed in belongs to the caller.
        if self._owns_timer:
            self.timer.close()
        if self._reaper is not None:
            self._reaper.close(timeout_s=1)
        if policy == "leave":
            for operation in self._operations():
                operation._stop_clock()
            return
        for operation in self._take_all():
            operation.run() if policy == "expire" else operation.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} delayed={self.num_delayed}>"

    # Inside

    def _operations(self) -> list[DelayedOperation]:
        return self._watches.operations()

    def _take_all(self) -> list[DelayedOperation]:
        return self._watches.take_all()

    def _watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        try:
            operation._watch_on(keys, self._watches)
        except BaseException:  # the `__eq__` of a key
            operation._unwatch()
            operation._stop_clock()
            raise
        with self._lock:
            self._estimated_total += 1

    def _start_clock(self, operation: DelayedOperation) -> None:
        operation._started_ms = self.clock.now_ms()
        try:
            self.timer.add(operation)
        except BaseException:
            operation._unwatch()
            operation._stop_clock()
            raise
        # An operation may complete, and the purgatory be closed, while its clock is being started.
        if operation.is_completed:
            operation._stop_clock()
        elif self._closed and operation.cancel():
            raise Closed(f"the purgatory {self.name!r} was closed; it takes no more operations")

    def _check_key(self, key: Hashable) -> int:
        completed = sum(operation.safe_try_complete() for operation in self._watches.check(key))
        # Once more, to drop those that are completed now.
        self._watches.check(key)
        return completed

    def _count_settled(self, operation: DelayedOperation, expired: bool) -> None:
        waited_ms = 0
        if operation._started_ms is not None:
            try:
                waited_ms = max(0, self.clock.now_ms() - operation._started_ms)
            except Exception as error:  # a clock that fails must not keep an operation from its callbacks
                report(self._on_error, error, self.clock)
        if expired:
            self._counts.count_expired(waited_ms, late_ms=max(0, waited_ms - max(0, operation.delay_ms)))
        else:
            self._counts.count_completed(waited_ms)

    def _purge_if_worth_it(self) -> None:
        """What was watched since the last purge, and no longer waits for its time, has probably left watches behind."""
        if self._estimated_total - self.timer.size > self._purge_interval:
            self.purge()

    def _start_reaper(self) -> Reaper:
        reaper = Reaper(f"dwell-reaper-{self.name}", lambda: self.advance(POLL_MS), self._on_error, self._wake_reaper)
        reaper.start()
        return reaper

    def _wake_reaper(self) -> None:
        """End the reaper's wait. Closing a timer does; in a timer that was passed in, a task that is due next does."""
        if not self._owns_timer:
            with suppress(Closed):
                self.timer.add(TimerTask(1, lambda: None))

    def _check(self) -> None:
        """Assert every invariant; for tests, while nothing else runs."""
        self._watches._check()


def clock_and_timer(
    name: str, clock: Clock | None, timer: Timer | None, reaper: bool, on_error: ErrorHandler
) -> tuple[Clock, Timer]:
    """Those that were given; the clock of the timer; or new ones."""
    if clock is None:
        clock = getattr(timer, "clock", None) or SystemClock()
    if timer is None:
        executor = None if reaper else InlineExecutor()
        timer = SystemTimer(name, clock=clock, executor=executor, reaper=False, on_error=on_error)
    return clock, timer


def unique(watch_keys: Iterable[Hashable]) -> list[Hashable]:
    """The keys without repeats, or an error if there is none."""
    if isinstance(watch_keys, (str, bytes)):
        raise InvalidType(f"watch_keys must be a list of keys, not one key: {watch_keys!r}")
    keys = list(dict.fromkeys(watch_keys))
    if not keys:
        raise InvalidArgument("watch_keys must not be empty: nothing could ever complete the operation")
    return keys
