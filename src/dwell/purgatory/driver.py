"""What makes a purgatory run by itself: the reaper, closing, and waiting in asyncio. Shared by both builds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, SupportsIndex

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, ErrorHandler, InvalidArgument, log_error
from dwell.number import at_least
from dwell.purgatory.statistic import Outcome
from dwell.timer import InlineExecutor, Timer

if TYPE_CHECKING:
    from dwell.purgatory.core import PurgatoryCore as Base
    from dwell.purgatory.operation import DelayedOperation
else:
    Base = object

# How long the reaper waits for a bucket to expire before it looks whether a purge is due; Kafka's figure.
POLL_MS = 200

ClosePolicy = Literal["leave", "expire", "cancel"]


class Driver(Base):
    """Mixed into a core (the reference's or the compiled one) this makes a `Purgatory`."""

    _make_timer: ClassVar[Callable[..., Any]]
    _make_task: ClassVar[Callable[..., Any]]

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
        self._on_error = on_error = log_error if on_error is None else on_error
        purge_interval = at_least("purge_interval", purge_interval, 0)
        clock = getattr(timer, "clock", None) or SystemClock() if clock is None else clock
        self._owns_timer = timer is None
        if timer is None:
            executor = None if reaper else InlineExecutor()
            timer = self._make_timer(name, clock=clock, executor=executor, on_error=on_error)
        super().__init__(name, timer, clock, purge_interval)
        # Nobody may ever call `advance` on a purgatory whose timer is driven elsewhere, by an event loop for one.
        self._purges_when_watching = not reaper and not self._owns_timer
        self._closing = threading.Lock()
        self._stop = threading.Event()
        self._reaper = threading.Thread(target=self._reap, name=f"dwell-reaper-{name}", daemon=True) if reaper else None
        if self._reaper is not None:
            self._reaper.start()

    def advance(self, timeout_ms: SupportsIndex = 0) -> bool:
        """Wait up to `timeout_ms` for operations to run out of time, expire them, and purge if it is worth it.

        The reaper's work, for those who made the purgatory with `reaper=False`. False if nothing came due.
        """
        advanced = self.timer.advance_clock(at_least("timeout_ms", timeout_ms, 0))
        self._purge_if_worth_it()
        return advanced

    def close(self, policy: ClosePolicy = "leave") -> list[DelayedOperation]:
        """Take no more operations and end the reaper; returns at once when called again.

        What still waits is left to its keys ("leave": its clocks are stopped, also on a timer that was passed in, but
        `check_and_complete` goes on to work), expires now ("expire", in this thread), or is taken out without
        completing ("cancel") and returned. An expiry that the timer has handed to its executor before still runs.
        """
        if policy not in ("leave", "expire", "cancel"):
            raise InvalidArgument(f"policy must be 'leave', 'expire' or 'cancel', not {policy!r}")
        with self._closing:
            if self._closed:
                return []
            self._closed = True
        # Only what it made itself: a timer that was passed in is the caller's.
        if self._owns_timer:
            self.timer.close()
        self._stop_reaper()
        if policy == "leave":
            self._stop_clocks()
            return []
        waiting = self._take_all()
        for operation in waiting:
            if policy == "expire":
                operation.run()
            else:
                self._cancelled_one(operation)
        return waiting if policy == "cancel" else []

    async def wait(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        """Watch `operation` and wait for its outcome: True if it completed, False if its time ran out.

        It returns after the operation's callbacks have, whichever thread runs them. An operation that is cancelled in
        the purgatory raises `asyncio.CancelledError` here; a cancelled wait takes its operation out.
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

        if operation._observer is not None:
            raise InvalidArgument(f"somebody waits already for {operation!r}")
        operation._observer = observe
        try:
            if not operation.is_completed:
                self.try_complete_else_watch(operation, watch_keys)
            if operation._outcome is not None:
                # Perhaps since before there was an observer. Otherwise its callbacks are still to return.
                settle(operation._outcome)
            return await future
        finally:
            operation._observer = None
            self.cancel(operation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} delayed={self.num_delayed}>"

    def _reap(self) -> None:
        while not self._stop.is_set():
            try:
                advanced = self.advance(POLL_MS)
            except Exception as error:
                self._report(error, self)
                advanced = False
            if not advanced:
                # A timer that was closed, or that fails, returns at once for ever: do not spin.
                self._stop.wait(0.001)

    def _stop_reaper(self) -> None:
        self._stop.set()
        if self._reaper is None or self._reaper is threading.current_thread():
            return
        if not self._owns_timer:
            # A bucket that expires next wakes the reaper, whatever timer it waits on.
            with suppress(Closed):
                self.timer.add(self._make_task(1, lambda: None))
        # Not for ever: on a timer whose clock stands still the reaper never wakes, but it is a daemon.
        self._reaper.join(timeout=1)

    def _report(self, error: BaseException, source: object) -> None:
        try:
            self._on_error(error, source)
        except Exception as second:
            log_error(second, self._on_error)
