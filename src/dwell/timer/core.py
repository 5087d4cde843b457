"""The tasks of one timer: in by `add`, out when due. Neither waits nor runs anything; the driver does.

This is the reference. `_core.pyx` is its compiled twin: the same behaviour on arrays instead of objects, one test
suite.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import SupportsIndex

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, InvalidArgument, InvalidType
from dwell.number import FOREVER_MS, at_least, between, int64s, whole_number
from dwell.timer.delay_queue import DelayQueue
from dwell.timer.statistic import LATENESS_BOUNDS_MS, LevelStatistics, TimerStatistics
from dwell.timer.task import RecurringTask, TimerTask
from dwell.timer.task_list import NOT_QUEUED, TaskCounter, TimerTaskEntry
from dwell.timer.wheel import LARGEST_WHEEL, TimingWheel


class HandleTask(TimerTask):
    """A task of the bulk calls: nothing to run, a token to hand back."""

    __slots__ = ("handle", "token")

    def __init__(self, delay_ms: int, handle: int, token: int) -> None:
        super().__init__(delay_ms)
        self.handle = handle
        self.token = token

    def run(self) -> None: ...


class TimerCore:
    """Wheels, delay queue and counters. One lock guards them all; no user code runs while it is held."""

    def __init__(self, tick_ms: SupportsIndex, wheel_size: SupportsIndex, clock: Clock) -> None:
        self._tick_ms = at_least("tick_ms", tick_ms, 1)
        self._wheel_size = between("wheel_size", wheel_size, 2, LARGEST_WHEEL)
        self._clock = clock
        self._start_ms = clock.end_ms if isinstance(clock, SystemClock) else clock.now_ms
        self._closed = False
        self._counter = TaskCounter()
        self._lock = self._counter.lock
        self._queue = DelayQueue()
        self._wheel = TimingWheel(self.tick_ms, self.wheel_size, clock.now_ms(), self._counter, self._queue)
        # Due and not yet handed over: tasks to run, tokens of the bulk calls to hand back.
        self._due: list[TimerTask] = []
        self._due_tokens: array[int] = array("q")
        self._handles: dict[int, HandleTask] = {}
        self._next_handle = 0
        self._cascades = self._fired = 0
        self._lateness = [0] * (len(LATENESS_BOUNDS_MS) + 1)

    # Called by the driver's owner: scalar

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def tick_ms(self) -> int:
        return self._tick_ms

    @property
    def wheel_size(self) -> int:
        return self._wheel_size

    @property
    def size(self) -> int:
        """How many tasks wait in buckets; a task handed over for its run no longer counts."""
        return self._counter.value

    def add(self, task: TimerTask) -> None:
        """Let `task` run `task.delay_ms` from now, O(1). One that waits already is moved. After close: `Closed`."""
        if not isinstance(task, TimerTask):
            raise InvalidType(f"add takes a TimerTask, not {type(task).__name__}: {task!r}")
        start_ms = self._start_ms()
        self._add_at(task, min(start_ms + task.delay_ms, FOREVER_MS), start_ms)

    def schedule(self, delay_ms: SupportsIndex, callback: Callable[[], object]) -> TimerTask:
        """Make a `TimerTask` of `callback` and add it, in one call; returns the task, to cancel it by."""
        if callback is None:
            raise InvalidArgument("schedule needs a callback")
        task = TimerTask(delay_ms, callback)
        self.add(task)
        return task

    def reschedule(self, task: TimerTask, delay_ms: SupportsIndex) -> None:
        """Give `task` a new delay, counted from now, in place: O(1), whether it waits or not."""
        delay_ms = whole_number("delay_ms", delay_ms)
        if not isinstance(task, TimerTask):
            raise InvalidType(f"reschedule takes a TimerTask, not {type(task).__name__}: {task!r}")
        task._delay_ms = delay_ms
        self.add(task)

    # Called by the driver's owner: bulk

    def add_many(self, delays_ms: object, tokens: object = None) -> array[int]:
        """Start one timer a delay, return their handles. `advance_many` hands back the token (default: the handle)."""
        delays = int64s("delays_ms", delays_ms)
        given = None if tokens is None else int64s("tokens", tokens)
        if given is not None and len(given) != len(delays):
            raise InvalidType(f"tokens has {len(given)} items, delays_ms has {len(delays)}")
        start_ms = self._start_ms()
        with self._lock:
            handles = array("q", range(self._next_handle, self._next_handle + len(delays)))
            self._next_handle += len(delays)
            next_ms = self._queue.next_expiration_ms()
            for place, handle in enumerate(handles):
                task = HandleTask(delays[place], handle, handle if given is None else given[place])
                self._insert(task, min(start_ms + task.delay_ms, FOREVER_MS), start_ms)
            is_next = next_ms != self._queue.next_expiration_ms()
        if is_next:
            self._wake()
        return handles

    def cancel_many(self, handles: object) -> int:
        """Cancel what still waits of `handles`, return how many did. Those that fired or never were are passed over."""
        view = int64s("handles", handles)
        with self._lock:
            tasks = (self._handles.pop(handle, None) for handle in view)
            return sum(task.cancel() for task in tasks if task is not None)

    # Called by the driver

    def _next_expiration_ms(self) -> int | None:
        with self._lock:
            return self._queue.next_expiration_ms()

    def _advance(self) -> bool:
        """Move the clock to now and collect what came due. False if no bucket has expired."""
        now_ms = self.clock.now_ms()
        with self._lock:
            bucket = self._queue.poll(now_ms)
            if bucket is None:
                return False
            while bucket is not None:
                self._wheel.advance_clock(bucket.expiration_ms)
                bucket.flush(lambda entry: self._cascade(entry, now_ms))
                bucket = self._queue.poll(now_ms)
            return True

    def _take_due(self) -> list[TimerTask]:
        with self._lock:
            due, self._due = self._due, []
            return due

    def _give_back(self, due: list[TimerTask]) -> None:
        """Keep tasks that were taken and not handed over; they are the first to be taken next time."""
        with self._lock:
            self._due[:0] = due

    def _take_tokens(self) -> array[int]:
        with self._lock:
            tokens, self._due_tokens = self._due_tokens, array("q")
            return tokens

    def _run_all(self, batch: list[TimerTask]) -> None:
        """Run the tasks in order. If something that is no `Exception` passes through, `batch` keeps those not run."""
        done = 0
        try:
            for task in batch:
                done += 1
                self._run_one(task)
        finally:
            del batch[:done]

    def _run_one(self, task: TimerTask) -> None:
        if isinstance(task, RecurringTask):
            self._rearm(task)
        try:
            task.run()
        except Exception as error:
            self._report(error, task)

    def _rearm(self, task: RecurringTask) -> None:
        """Let a recurring task that starts to run be due again, unless it was cancelled or added meanwhile."""
        now_ms = self.clock.now_ms()
        with self._lock:
            if self._closed or task.is_cancelled or task.is_pending:
                return
            waits, is_next = self._insert(task, task._next_deadline_ms(now_ms), now_ms)
        self._tell_driver(waits, is_next)

    def _clear(self) -> list[TimerTask]:
        """Refuse what comes from now on and let go of all that waits; returns the tasks among it."""
        dropped: list[TimerTask] = []
        with self._lock:
            self._closed = True
            for bucket in self._queue.heap:
                bucket.flush(lambda entry: self._drop(entry, dropped))
            self._queue.heap.clear()
            self._handles.clear()
        return dropped

    def statistics(self) -> TimerStatistics:
        """A frozen snapshot: what waits where, and what became of the rest. O(levels * wheel size)."""
        with self._lock:
            return TimerStatistics(
                pending=self._counter.value,
                levels=tuple(
                    LevelStatistics(
                        tick_ms=wheel.tick_ms,
                        buckets=sum(1 for bucket in wheel.buckets if any(True for _ in bucket)),
                        tasks=sum(1 for bucket in wheel.buckets for _ in bucket),
                    )
                    for wheel in self._wheels()
                ),
                cascades=self._cascades,
                fired=self._fired,
                cancelled=self._counter.cancelled,
                lateness=tuple(self._lateness),
            )

    def _wake(self) -> None:
        """A bucket that expires before all others was queued; the driver may have to wait less long."""

    def _submit_due(self) -> None:
        """A task was due as it came; the driver hands it over."""

    def _report(self, error: BaseException, source: object) -> None:
        """User code raised; the driver tells the handler."""

    # Inside

    def _add_at(self, task: TimerTask, deadline_ms: int, now_ms: int) -> None:
        with self._lock:
            waits, is_next = self._insert(task, deadline_ms, now_ms)
        self._tell_driver(waits, is_next)

    def _insert(self, task: TimerTask, deadline_ms: int, now_ms: int) -> tuple[bool, bool]:
        """Under the lock. Whether the task waits (else it is due), and whether it is the next to expire."""
        if self._closed:
            raise Closed("the timer is closed; it takes no more tasks")
        if task._entry is not None:
            task._entry.remove()
        task._cancelled = False
        expiration_ms = -(-deadline_ms // self._tick_ms) * self._tick_ms
        task._entry = entry = TimerTaskEntry(task, expiration_ms, self._counter, deadline_ms)
        if isinstance(task, HandleTask):
            self._handles[task.handle] = task
        next_ms = self._queue.next_expiration_ms()
        if deadline_ms > now_ms and self._wheel.add(entry):
            return True, next_ms != self._queue.next_expiration_ms()
        self._fire(entry, now_ms)
        return False, False

    def _tell_driver(self, waits: bool, is_next: bool) -> None:
        """Without the lock: the driver has locks of its own, and runs user code."""
        if is_next:
            self._wake()
        elif not waits:
            self._submit_due()

    def _cascade(self, entry: TimerTaskEntry, now_ms: int) -> None:
        if self._wheel.add(entry):
            self._cascades += 1
        else:
            self._fire(entry, now_ms)

    def _fire(self, entry: TimerTaskEntry, now_ms: int) -> None:
        task = entry.task
        assert task is not None
        task._entry = None
        self._fired += 1
        lateness_ms = max(0, now_ms - entry.deadline_ms)
        self._lateness[min(lateness_ms.bit_length(), len(self._lateness) - 1)] += 1
        if isinstance(task, HandleTask):
            del self._handles[task.handle]
            self._due_tokens.append(task.token)
        else:
            if isinstance(task, RecurringTask):
                task._due_ms = entry.deadline_ms
            self._due.append(task)

    def _drop(self, entry: TimerTaskEntry, dropped: list[TimerTask]) -> None:
        assert entry.task is not None
        entry.task._entry = None
        if not isinstance(entry.task, HandleTask):
            dropped.append(entry.task)

    def _wheels(self) -> Iterator[TimingWheel]:
        wheel: TimingWheel | None = self._wheel
        while wheel is not None:
            yield wheel
            wheel = wheel.overflow_wheel

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        with self._lock:
            queued = self._queue.heap
            assert len({id(bucket) for bucket in queued}) == len(queued), "a bucket is queued twice"
            counted = 0
            for wheel in self._wheels():
                assert wheel.current_ms % wheel.tick_ms == 0
                for place, bucket in enumerate(wheel.buckets):
                    entries = list(bucket)
                    counted += len(entries)
                    ring = pairwise([bucket.root, *entries, bucket.root])
                    assert all(a.next is b and b.prev is a for a, b in ring), "ring broken"
                    is_queued = any(bucket is other for other in queued)
                    assert is_queued == (bucket.expiration_ms != NOT_QUEUED)
                    assert is_queued or not entries, "tasks in a bucket nobody waits for"
                    for entry in entries:
                        assert entry.task_list is bucket
                        assert entry.task is not None
                        assert entry.task._entry is entry
                        assert entry.expiration_ms // wheel.tick_ms % wheel.wheel_size == place
                        start_ms = bucket.expiration_ms
                        assert start_ms <= entry.expiration_ms < start_ms + wheel.tick_ms
            assert counted == self._counter.value, "counter differs from entries"
