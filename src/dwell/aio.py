"""The timing wheel on an asyncio event loop: no thread, one loop timer for any number of timeouts.

    async with LoopTimer() as timer:
        await timer.sleep(250)
        async with timer.timeout(30_000):
            reply = await request()

The loop is asked to call back once, at the next expiration of the wheel; a sleep or timeout that starts and is over
before then never reaches the loop's own heap of timers. Everything runs in the loop's thread, and must be called from
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Self, SupportsIndex, TypeVar, final

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, ErrorHandler, InvalidArgument
from dwell.timer.build import TimerCore, TimerTask

T = TypeVar("T")

# The loop is not asked to wait longer than a day: the clock of a loop need not run as ours does.
LONGEST_WAIT_MS = 86_400_000


@final
class LoopTimer(TimerCore):
    """`SystemTimer` for a running event loop: the same wheel, the same tasks, callbacks run by the loop."""

    def __init__(
        self,
        *,
        tick_ms: SupportsIndex = 1,
        wheel_size: SupportsIndex = 20,
        clock: Clock | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        on_error: ErrorHandler | None = None,
    ) -> None:
        super().__init__(tick_ms, wheel_size, SystemClock() if clock is None else clock)
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._on_error = self._tell_loop if on_error is None else on_error
        self._next_turn: asyncio.TimerHandle | None = None
        self._next_run: asyncio.Handle | None = None

    async def sleep(self, delay_ms: SupportsIndex) -> None:
        """Suspend the coroutine for at least `delay_ms`."""
        sleep = Sleep(delay_ms, self._loop.create_future())
        self.add(sleep)
        try:
            await sleep.future
        finally:
            sleep.cancel()

    def timeout(self, delay_ms: SupportsIndex) -> Timeout:
        """`async with`: cancel what runs inside after `delay_ms`, raise `TimeoutError`, as `asyncio.timeout` does."""
        return Timeout(self, delay_ms)

    async def wait_for(self, awaitable: Awaitable[T], delay_ms: SupportsIndex) -> T:
        """The result of `awaitable`, or `TimeoutError` after `delay_ms`."""
        async with Timeout(self, delay_ms):
            return await awaitable

    def advance_clock(self, timeout_ms: SupportsIndex = 0) -> bool:
        """Run what is due now, without waiting; the loop does this by itself. False if nothing expired."""
        if timeout_ms != 0:
            raise InvalidArgument(f"a LoopTimer does not block: timeout_ms must be 0, not {timeout_ms!r}")
        if not self._advance():
            return False
        self._run_due()
        return True

    def close(self) -> None:
        """Refuse new tasks, drop those that wait; who sleeps or has a timeout here gets `Closed`. Twice is fine.

        What is due already still runs, on the loop.
        """
        for task in self._clear():
            if isinstance(task, Sleep | Timeout):
                task.abort()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def _wake(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        next_ms = self._next_expiration_ms()
        if next_ms is not None:
            wait_ms = min(max(0, next_ms - self.clock.now_ms()), LONGEST_WAIT_MS)
            self._next_turn = self._loop.call_later(wait_ms / 1000, self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        try:
            self.advance_clock()
        finally:
            self._wake()

    def _submit_due(self) -> None:
        # Not at once: the caller of `add` does not expect its callback to run before `add` returns.
        if self._next_run is None:
            self._next_run = self._loop.call_soon(self._run_due)

    def _run_due(self) -> None:
        self._next_run = None
        due = self._take_due()
        try:
            self._run_all(due)
        finally:
            if due:
                self._give_back(due)
                self._submit_due()

    def _report(self, error: BaseException, source: object) -> None:
        self._on_error(error, source)

    def _tell_loop(self, error: BaseException, source: object) -> None:
        self._loop.call_exception_handler({"message": f"{source!r} raised", "exception": error})


@final
class Sleep(TimerTask):
    """A coroutine that sleeps."""

    __slots__ = ("future",)

    def __init__(self, delay_ms: SupportsIndex, future: asyncio.Future[None]) -> None:
        super().__init__(delay_ms)
        self.future = future

    def run(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def abort(self) -> None:
        if not self.future.done():
            self.future.set_exception(Closed("the timer was closed during the sleep"))


@final
class Timeout(TimerTask):
    """What `LoopTimer.timeout` returns: an async context manager that can be rescheduled while it runs."""

    __slots__ = ("_cancelling", "_error", "_is_over", "_task", "_timer")

    def __init__(self, timer: LoopTimer, delay_ms: SupportsIndex) -> None:
        super().__init__(delay_ms)
        self._timer = timer
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        # The block has ended or was interrupted: from then on nothing may cancel the task on its behalf.
        self._is_over = False
        # What the block raises in place of the cancellation that interrupts it.
        self._error: Exception | None = None

    @property
    def expired(self) -> bool:
        """Whether time ran out inside the block."""
        return isinstance(self._error, TimeoutError)

    def reschedule(self, delay_ms: SupportsIndex) -> None:
        """Let time run out `delay_ms` from now instead, O(1). Inside the block only, and not once time has run out."""
        if self._task is None:
            raise RuntimeError("the timeout has not been entered")
        if self._is_over:
            raise RuntimeError("the timeout is over: its block has ended or its time has run out")
        self._timer.reschedule(self, delay_ms)

    def run(self) -> None:
        self._interrupt(TimeoutError())

    def abort(self) -> None:
        self._interrupt(Closed("the timer was closed inside the block"))

    def _interrupt(self, error: Exception) -> None:
        # A timeout that is due at once may run only after its block has ended.
        if self._is_over or self._task is None:
            return
        self._is_over = True
        self._error = error
        self._task.cancel()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise RuntimeError("a timeout can be entered once")
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("a timeout must be used inside a task")
        self._cancelling = self._task.cancelling()
        self._timer.add(self)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()
        self._is_over = True
        assert self._task is not None
        # Only our own cancellation is replaced; one that somebody else asked for passes through.
        if self._error is not None and self._task.uncancel() <= self._cancelling and exc_type is asyncio.CancelledError:
            raise self._error from exc
