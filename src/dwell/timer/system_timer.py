"""A timer on a clock: it turns the wheels as time passes and has due tasks run.

**Who turns the wheels.** On the system clock a thread of the timer's own, the reaper, started when the first task has
to wait. It sleeps until the next bucket expires; a task that expires earlier wakes it. Anybody may call `advance_clock`
instead, and then the reaper stands by: it looks every 200 ms whether somebody still does. On a manual clock there is no
reaper: a test moves the clock and calls `advance_clock`.

**Who runs due tasks.** A second thread of the timer's own, or the executor that was given: a slow task delays other
tasks and never the wheels. With an `InlineExecutor` the thread that turns the wheels runs them.

**Threads.** Any thread may call any method. Whoever waits here holds no lock of the wheels, and no lock at all is held
while user code runs.
"""

from __future__ import annotations

import threading
from array import array
from concurrent.futures import Executor
from functools import partial
from typing import Self, SupportsIndex

from dwell.clock import Clock, SystemClock
from dwell.errors import ErrorHandler, log_error, report
from dwell.number import at_least
from dwell.reaper import POLL_MS, Reaper
from dwell.timer import TimerTask, Wheels
from dwell.timer.executor import InlineExecutor, TaskThread


class SystemTimer(Wheels):
    """Runs tasks when their delay is over. `add` and `cancel` are O(1), with any number of tasks and any delays.

    `reaper`: whether a thread of the timer's own turns the wheels. By default there is one on the system clock, except
    with an `InlineExecutor`, whose tasks run in the thread that calls `advance_clock`. `on_error`: what tasks raise.
    """

    def __init__(
        self,
        name: str = "timer",
        *,
        tick_ms: SupportsIndex = 1,
        wheel_size: SupportsIndex = 20,
        clock: Clock | None = None,
        executor: Executor | None = None,
        reaper: bool | None = None,
        on_error: ErrorHandler | None = None,
    ) -> None:
        clock = SystemClock() if clock is None else clock
        super().__init__(tick_ms, wheel_size, clock, self._wake, self._hand_over)
        self.name = name
        self._on_error = log_error if on_error is None else on_error
        self._executor = executor
        self._thread = (
            TaskThread(f"dwell-{name}", self._take_due, partial(self._run, on_error=self._on_error), self._on_error)
            if executor is None
            else None
        )
        # Held by the one thread that runs due tasks inline; others, and tasks that advance, leave theirs to it.
        self._running = threading.Lock()
        # For threads that wait for a bucket to expire, and how many there are: the reaper, and those by hand.
        self._condition = threading.Condition(threading.Lock())
        self._waiting = self._waiting_by_hand = 0
        # Whether `advance_clock` was called since the reaper last looked.
        self._was_advanced_by_hand = False
        if reaper is None:
            reaper = isinstance(clock, SystemClock) and not isinstance(executor, InlineExecutor)
        self._reaper = Reaper(f"dwell-reaper-{name}", self._reap, self._on_error, self._wake) if reaper else None

    def advance_clock(self, timeout_ms: SupportsIndex) -> bool:
        """Wait up to `timeout_ms` for a bucket to expire, then hand over all that is due. False if nothing expired."""
        self._was_advanced_by_hand = True
        if timeout_ms != 0:
            timeout_ms = at_least("timeout_ms", timeout_ms, 0)
            # What an interrupt left over is due already. The timer's own thread takes what is due by itself.
            if self._thread is not None or not self._has_due:
                self._wait(timeout_ms, by_hand=True)
        return self._turn()

    def advance_many(self, timeout_ms: SupportsIndex = 0) -> array[int]:
        """Like `advance_clock`, and hand back the tokens of `add_many` timers expired since the last call."""
        self.advance_clock(timeout_ms)
        return self._take_tokens()

    def close(self) -> None:
        """Refuse new tasks, drop those that wait, let those that are due run. May be called twice and from a task."""
        self._close()
        self._wake()
        if self._reaper is not None:
            self._reaper.close()
        # Another thread may have added a task that is due and not told of it yet; or an interrupt left some over.
        if self._has_due:
            self._hand_over()
        if self._thread is not None:
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} size={self.size}>"

    # Turning the wheels

    def _reap(self) -> bool:
        """One turn of the reaper."""
        assert self._reaper is not None
        if self._was_advanced_by_hand or self._waiting_by_hand:
            self._was_advanced_by_hand = False
            self._reaper.pause(POLL_MS / 1000)
            return True
        self._wait(None, by_hand=False)
        return self._turn()

    def _turn(self) -> bool:
        expired = self._expire()
        if self._has_due:
            self._hand_over()
        return expired

    def _wait(self, timeout_ms: int | None, *, by_hand: bool) -> None:
        """Until a bucket expires or the timer is closed; at most `timeout_ms`."""
        end_ms = None if timeout_ms is None else self.clock.now_ms() + timeout_ms
        with self._condition:
            # Before the look at the queue: who adds an earlier bucket from here on finds a thread to wake.
            self._waiting += 1
            self._waiting_by_hand += by_hand
            try:
                while not self._closed:
                    first_ms = self.next_expiration_ms
                    times_ms = [time_ms for time_ms in (first_ms, end_ms) if time_ms is not None]
                    wait_ms = min(times_ms) - self.clock.now_ms() if times_ms else None
                    if wait_ms is not None and wait_ms <= 0:
                        return
                    self._condition.wait(None if wait_ms is None else min(wait_ms / 1000, threading.TIMEOUT_MAX))
            finally:
                self._waiting -= 1
                self._waiting_by_hand -= by_hand

    def _wake(self) -> None:
        """Something expires before all others now, or the timer was closed: who waits has to look again."""
        if self._reaper is not None and not self._closed:
            self._reaper.start()
        if self._waiting:
            with self._condition:
                self._condition.notify_all()

    # Running what is due

    def _hand_over(self) -> None:
        """Tasks are due: have them run."""
        if self._thread is not None:
            self._thread.wake()
        elif isinstance(self._executor, InlineExecutor):
            self._run_inline()
        else:
            self._submit()

    def _run_inline(self) -> None:
        while self._running.acquire(blocking=False):
            due: list[TimerTask] = []
            try:
                while due := self._take_due():
                    self._run(due, self._on_error)
            finally:
                self._keep(due)
                self._running.release()
            # What came due between the last look and the release had nobody to run it.
            if not self._has_due:
                return

    def _submit(self) -> None:
        assert self._executor is not None
        due = self._take_due()
        try:
            while due:
                try:
                    self._executor.submit(self._run, [due[0]], self._on_error)
                except Exception as error:
                    report(self._on_error, error, due[0])
                del due[0]
        finally:
            self._keep(due)

    def _keep(self, due: list[TimerTask]) -> None:
        # Some are left only if an exception that is no Exception, such as KeyboardInterrupt, passes through.
        if due:
            self._put_back(due)
