"""A timer that an event loop turns.

The loop is asked to call back once, at the next expiration of the wheels; a sleep or timeout that starts and is over
before then never reaches the loop's own heap of timers. Everything runs in the loop's thread, and must be called from
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Self, SupportsIndex, TypeVar, final

from dwell.aio.timeout import Sleep, Timeout
from dwell.clock import Clock, SystemClock
from dwell.errors import ErrorHandler, InvalidArgument
from dwell.timer import Wheels

T = TypeVar("T")

# The loop is not asked to wait longer than a day: the clock of a loop need not run as ours does.
LONGEST_WAIT_MS = 86_400_000


@final
class LoopTimer(Wheels):
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
        clock = SystemClock() if clock is None else clock
        super().__init__(tick_ms, wheel_size, clock, self._set_next_turn, self._run_soon)
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
        if not self._expire():
            return False
        self._run_due()
        return True

    def close(self) -> None:
        """Refuse new tasks, drop those that wait; who sleeps or has a timeout here gets `Closed`. Twice is fine.

        What is due already still runs, on the loop.
        """
        for task in self._close():
            if isinstance(task, Sleep | Timeout):
                task.abort()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def _set_next_turn(self) -> None:
        """Ask the loop to call back when the wheels have to be turned next."""
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        first_ms = self.next_expiration_ms
        if first_ms is not None:
            wait_ms = min(max(0, first_ms - self.clock.now_ms()), LONGEST_WAIT_MS)
            self._next_turn = self._loop.call_later(wait_ms / 1000, self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        try:
            self.advance_clock()
        finally:
            self._set_next_turn()

    def _run_soon(self) -> None:
        # Not at once: the caller of `add` does not expect its callback to run before `add` returns.
        if self._next_run is None:
            self._next_run = self._loop.call_soon(self._run_due)

    def _run_due(self) -> None:
        self._next_run = None
        due = self._take_due()
        try:
            self._run(due, self._on_error)
        finally:
            # Some are left only if an exception that is no Exception, such as KeyboardInterrupt, passes through.
            if due:
                self._put_back(due)
                self._run_soon()

    def _tell_loop(self, error: BaseException, source: object) -> None:
        self._loop.call_exception_handler({"message": f"{source!r} raised", "exception": error})
