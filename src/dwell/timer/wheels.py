"""All that waits in one timer: the wheels, the delay queue and the counters. In by `add`, out when due.

`_wheels.pyx` is its compiled twin: the same behaviour on arrays instead of objects, under the same tests.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, SupportsIndex

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, ErrorHandler, InvalidArgument, InvalidType, report
from dwell.histogram import PLACES, place_of
from dwell.number import at_least, between, int64s, later, whole_number
from dwell.timer.bucket import LOCK, NOT_QUEUED, TimerTaskEntry
from dwell.timer.delay_queue import DelayQueue
from dwell.timer.statistics import LevelStatistics, TimerStatistics
from dwell.timer.task import RecurringTask, TimerTask
from dwell.timer.wheel import LARGEST_WHEEL, TimingWheel

if TYPE_CHECKING:
    from typing_extensions import Buffer


class HandleTask(TimerTask):
    """A task of the bulk calls: nothing to run, a token to hand back."""

    __slots__ = ("handle", "token")

    def __init__(self, delay_ms: int, handle: int, token: int) -> None:
        super().__init__(delay_ms)
        self.handle = handle
        self.token = token

    def run(self) -> None: ...


class Wheels:
    """The wheels, the delay queue and the counters of one timer. It neither waits nor starts anything by itself.

    `on_first()` is called after a timer was added that expires before all others, `on_due()` after one was added that
    is due. Both are called without a lock, by the thread that added.
    """

    def __init__(
        self,
        tick_ms: SupportsIndex,
        wheel_size: SupportsIndex,
        clock: Clock,
        on_first: Callable[[], object],
        on_due: Callable[[], object],
    ) -> None:
        self._tick_ms = at_least("tick_ms", tick_ms, 1)
        self._wheel_size = between("wheel_size", wheel_size, 2, LARGEST_WHEEL)
        self._clock = clock
        # The moment a delay counts from: on the system clock the time rounded up, so that a delay never ends early.
        self._start_ms = clock.end_ms if isinstance(clock, SystemClock) else clock.now_ms
        self._on_first = on_first
        self._on_due = on_due
        self._closed = False
        self._size = 0
        self._queue = DelayQueue()
        self._wheel = TimingWheel(self._tick_ms, self._wheel_size, clock.now_ms(), self._queue)
        # Due and not yet taken: tasks to run, tokens of the bulk calls to hand back.
        self._due: list[TimerTask] = []
        self._due_tokens: array[int] = array("q")
        self._handles: dict[int, HandleTask] = {}
        self._next_handle = 0
        self._cascades = self._fired = self._cancelled = 0
        self._lateness = [0] * PLACES

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are counted on."""
        return self._clock

    @property
    def tick_ms(self) -> int:
        """The time one bucket of the lowest level covers."""
        return self._tick_ms

    @property
    def wheel_size(self) -> int:
        """How many buckets a level has."""
        return self._wheel_size

    @property
    def size(self) -> int:
        """How many tasks wait in buckets; a task handed over for its run no longer counts."""
        return self._size

    @property
    def next_expiration_ms(self) -> int | None:
        """When the wheels must be turned next, None if nothing waits. At or before the first deadline."""
        with LOCK:
            return self._queue.next_expiration_ms()

    # One timer at a time

    def add(self, task: TimerTask) -> None:
        """Let `task` run `task.delay_ms` from now, O(1). One that waits already is moved. After close: `Closed`."""
        if not isinstance(task, TimerTask):
            raise InvalidType(f"add takes a TimerTask, not {type(task).__name__}: {task!r}")
        start_ms = self._start_ms()
        with LOCK:
            is_due, is_first = self._insert(task, later(start_ms, task.delay_ms), start_ms)
        self._tell(is_due, is_first)

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

    # Many timers at a time

    def add_many(self, delays_ms: Buffer | Sequence[int], tokens: Buffer | Sequence[int] | None = None) -> array[int]:
        """Start one timer per delay, return their handles. `advance_many` hands back the tokens (default: handles).

        Both arguments are buffers of int64, such as `array('q')` or a numpy array, or sequences of ints.
        """
        delays = int64s("delays_ms", delays_ms)
        given = None if tokens is None else int64s("tokens", tokens)
        if given is not None and len(given) != len(delays):
            raise InvalidType(f"tokens has {len(given)} items, delays_ms has {len(delays)}")
        start_ms = self._start_ms()
        is_first = False
        with LOCK:
            handles = array("q", range(self._next_handle, self._next_handle + len(delays)))
            for place, handle in enumerate(handles):
                task = HandleTask(delays[place], handle, handle if given is None else given[place])
                is_first |= self._insert(task, later(start_ms, task.delay_ms), start_ms)[1]
                if task.is_pending:
                    self._handles[handle] = task
            self._next_handle += len(delays)
        self._tell(False, is_first)
        return handles

    def cancel_many(self, handles: Buffer | Sequence[int]) -> int:
        """Cancel what still waits of `handles`, return how many did. Those that fired or never were are passed over."""
        view = int64s("handles", handles)
        with LOCK:
            waiting = [task for handle in view if (task := self._handles.pop(handle, None)) is not None]
            for task in waiting:
                assert task._entry is not None
                self._cancel(task._entry)
        return len(waiting)

    def statistics(self) -> TimerStatistics:
        """A frozen snapshot: what waits where, and what became of the rest. O(levels * wheel size)."""
        with LOCK:
            return TimerStatistics(
                pending=self._size,
                levels=tuple(
                    LevelStatistics(
                        tick_ms=wheel.tick_ms,
                        buckets=sum(1 for bucket in wheel.buckets if any(True for _ in bucket)),
                        tasks=sum(1 for bucket in wheel.buckets for _ in bucket),
                    )
                    for wheel in self._levels()
                ),
                cascades=self._cascades,
                fired=self._fired,
                cancelled=self._cancelled,
                lateness=tuple(self._lateness),
            )

    # For the timer that turns the wheels

    @property
    def _has_due(self) -> bool:
        return bool(self._due)

    def _expire(self) -> bool:
        """Turn the wheels to now and collect what is due. False if no bucket has expired."""
        now_ms = self._clock.now_ms()
        with LOCK:
            expired = False
            while (bucket := self._queue.poll(now_ms)) is not None:
                expired = True
                self._wheel.advance_clock(bucket.expiration_ms)
                for entry in bucket.flush():
                    if self._wheel.add(entry):
                        self._cascades += 1
                    else:
                        self._size -= 1
                        self._fire(entry, now_ms)
            return expired

    def _take_due(self) -> list[TimerTask]:
        """The tasks that are due; the caller runs them."""
        with LOCK:
            due, self._due = self._due, []
            return due

    def _put_back(self, tasks: list[TimerTask]) -> None:
        """Keep tasks that were taken and not run; they are the first to be taken next time."""
        with LOCK:
            self._due[:0] = tasks

    def _take_tokens(self) -> array[int]:
        """The tokens of the bulk timers that have expired."""
        with LOCK:
            tokens, self._due_tokens = self._due_tokens, array("q")
            return tokens

    def _run(self, batch: list[TimerTask], on_error: ErrorHandler) -> None:
        """Run the tasks in order. If something that is no `Exception` passes through, `batch` keeps those not run."""
        done = 0
        try:
            for task in batch:
                done += 1
                try:
                    if isinstance(task, RecurringTask):
                        self._start_again(task)
                    task.run()
                except Exception as error:
                    report(on_error, error, task)
        finally:
            del batch[:done]

    def _close(self) -> list[TimerTask]:
        """Refuse what comes from now on and let go of all that waits; returns the tasks among it."""
        with LOCK:
            self._closed = True
            entries = [entry for bucket in self._queue.heap for entry in bucket.flush()]
            self._queue.heap.clear()
            self._handles.clear()
            self._size = 0
            for entry in entries:
                assert entry.task is not None
                entry.task._entry = None
        return [entry.task for entry in entries if entry.task and not isinstance(entry.task, HandleTask)]

    # Inside: the caller holds the lock

    def _insert(self, task: TimerTask, deadline_ms: int, now_ms: int) -> tuple[bool, bool]:
        """Let the task wait. Returns whether it is due, and whether it now expires before all others."""
        if self._closed:
            raise Closed("the timer is closed; it takes no more tasks")
        if task._entry is not None and task._entry.wheels is not None:
            task._entry.wheels._remove(task._entry)
        task._cancelled = False
        expiration_ms = -(-deadline_ms // self._tick_ms) * self._tick_ms
        entry = TimerTaskEntry(task, expiration_ms, deadline_ms, self)
        first_ms = self._queue.next_expiration_ms()
        if deadline_ms > now_ms and self._wheel.add(entry):
            task._entry = entry
            self._size += 1
            return False, first_ms != self._queue.next_expiration_ms()
        self._fire(entry, now_ms)
        return True, False

    def _remove(self, entry: TimerTaskEntry) -> None:
        """Take a waiting entry out of its bucket."""
        assert entry.task is not None
        assert entry.task_list is not None
        entry.task_list.remove(entry)
        entry.task._entry = None
        self._size -= 1

    def _cancel(self, entry: TimerTaskEntry) -> None:
        self._remove(entry)
        self._cancelled += 1

    def _fire(self, entry: TimerTaskEntry, now_ms: int) -> None:
        """Keep the due task, or its token, for whoever turned the wheels."""
        task = entry.task
        assert task is not None
        task._entry = None
        self._fired += 1
        self._lateness[place_of(now_ms - entry.deadline_ms)] += 1
        if isinstance(task, HandleTask):
            self._handles.pop(task.handle, None)
            self._due_tokens.append(task.token)
        else:
            if isinstance(task, RecurringTask):
                task._due_ms = entry.deadline_ms
            self._due.append(task)

    def _levels(self) -> Iterator[TimingWheel]:
        wheel: TimingWheel | None = self._wheel
        while wheel is not None:
            yield wheel
            wheel = wheel.overflow_wheel

    # Inside: without the lock

    def _tell(self, is_due: bool, is_first: bool) -> None:
        if is_due:
            self._on_due()
        elif is_first:
            self._on_first()

    def _start_again(self, task: RecurringTask) -> None:
        """Let a recurring task that starts to run be due again, unless it was cancelled or added meanwhile."""
        now_ms = self._clock.now_ms()
        with LOCK:
            if self._closed or task.is_cancelled or task.is_pending:
                return
            is_due, is_first = self._insert(task, task._next_deadline_ms(now_ms), now_ms)
        self._tell(is_due, is_first)

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        with LOCK:
            queued = self._queue.heap
            assert len({id(bucket) for bucket in queued}) == len(queued), "a bucket is queued twice"
            counted = 0
            for wheel in self._levels():
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
            assert counted == self._size, "counter differs from entries"
            assert all(task.is_pending for task in self._handles.values()), "a handle of a timer that is gone"
