"""What waits on a `LoopTimer`: a coroutine that sleeps, a block with a timeout."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, final

from dwell.errors import Closed
from dwell.timer import TimerTask

if TYPE_CHECKING:
    from dwell.aio.loop_timer import LoopTimer


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
