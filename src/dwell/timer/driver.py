"""What makes the wheel turn: waiting for the next bucket, and handing over what came due. Shared by both builds.

Threads: any thread may add, cancel and advance. `advance_clock` waits on one condition and holds no lock of the core
while it does; a task that becomes the next to expire wakes it. User code runs on the executor, never under a lock.
"""

from __future__ import annotations

import threading
from array import array
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol, Self, SupportsIndex

from dwell.clock import Clock, SystemClock
from dwell.errors import ErrorHandler, log_error, report
from dwell.number import at_least
from dwell.timer.executor import InlineExecutor, Worker
from dwell.timer.task import TimerTask

if TYPE_CHECKING:
    from dwell.timer.core import TimerCore as Base
else:
    Base = object


class Timer(Protocol):
    """What a purgatory needs of a timer."""

    def add(self, task: TimerTask) -> None: ...
    def advance_clock(self, timeout_ms: int) -> bool: ...
    @property
    def size(self) -> int: ...
    def close(self) -> None: ...


class Driver(Base):
    """Mixed into a core (the reference's or the compiled one) this makes a `SystemTimer`."""

    def __init__(
        self,
        name: str = "timer",
        *,
        tick_ms: SupportsIndex = 1,
        wheel_size: SupportsIndex = 20,
        clock: Clock | None = None,
        executor: Executor | None = None,
        on_error: ErrorHandler | None = None,
    ) -> None:
        super().__init__(tick_ms, wheel_size, SystemClock() if clock is None else clock)
        self.name = name
        self._on_error = log_error if on_error is None else on_error
        self._executor = executor
        self._worker = (
            Worker(f"dwell-{name}", self._take_due, self._run_all, self._report) if executor is None else None
        )
        self._condition = threading.Condition(threading.Lock())
        self._waiters = 0
        # Held by the one thread that runs due tasks inline; others, and tasks that advance, leave theirs to it.
        self._running = threading.Lock()

    def advance_clock(self, timeout_ms: SupportsIndex) -> bool:
        """Wait up to `timeout_ms` for a bucket to expire, then hand over all that is due. False if nothing expired."""
        if timeout_ms != 0:
            timeout_ms = at_least("timeout_ms", timeout_ms, 0)
            # What an interrupt left over is due already. The timer's own thread takes what is due by itself.
            if self._worker is not None or not self._due:
                self._wait(timeout_ms)
        advanced = self._advance()
        if self._due:
            self._submit_due()
        return advanced

    def advance_many(self, timeout_ms: SupportsIndex = 0) -> array[int]:
        """Like `advance_clock`, and hand back the tokens of `add_many` timers expired since the last call."""
        self.advance_clock(timeout_ms)
        return self._take_tokens()

    def close(self) -> None:
        """Refuse new tasks, drop those that wait, let those that are due run. May be called twice and from a task."""
        self._clear()
        with self._condition:
            self._condition.notify_all()
        # Another thread may have added a task that is due and not told of it yet; or an interrupt left some over.
        if self._due:
            self._submit_due()
        if self._worker is not None:
            self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} size={self.size}>"

    def _wait(self, timeout_ms: int) -> None:
        end_ms = self.clock.now_ms() + timeout_ms
        with self._condition:
            # Before the look at the queue: who adds an earlier bucket from here on finds a waiter to wake.
            self._waiters += 1
            try:
                while not self._closed:
                    next_ms = self._next_expiration_ms()
                    until_ms = end_ms if next_ms is None else min(next_ms, end_ms)
                    wait_ms = until_ms - self.clock.now_ms()
                    if wait_ms <= 0:
                        return
                    self._condition.wait(min(wait_ms / 1000, threading.TIMEOUT_MAX))
            finally:
                self._waiters -= 1

    def _wake(self) -> None:
        if self._waiters:
            with self._condition:
                self._condition.notify_all()

    def _submit_due(self) -> None:
        if self._worker is not None:
            self._worker.wake()
        elif self._executor is None or isinstance(self._executor, InlineExecutor):
            self._run_inline()
        else:
            due = self._take_due()
            try:
                while due:
                    try:
                        self._executor.submit(self._run_one, due[0])
                    except Exception as error:
                        self._report(error, due[0])
                    del due[0]
            finally:
                # Not empty only if an exception that is no Exception, such as KeyboardInterrupt, passes through.
                if due:
                    self._give_back(due)

    def _run_inline(self) -> None:
        while self._running.acquire(blocking=False):
            due: list[TimerTask] = []
            try:
                while due := self._take_due():
                    self._run_all(due)
            finally:
                # Not empty only if an exception that is no Exception, such as KeyboardInterrupt, passes through.
                if due:
                    self._give_back(due)
                self._running.release()
            # What came due between the last look and the release had nobody to run it.
            if not self._due:
                return

    def _report(self, error: BaseException, source: object) -> None:
        report(self._on_error, error, source)
