# cython: annotation_typing=False
"""Waking those who wait for an outcome: threads, coroutines, callbacks. Always under no lock."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

from dwell.errors import log_error
from dwell.ledger.awaiting import Awaiting, forget_all, wake_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from dwell.errors import ErrorHandler
    from dwell.ledger.operation import Operation

    Waiter = Callable[[], object] | Awaiting


class Waking:
    """Tells waiters, in the order of the outcomes.

    A callback that settles further operations does not recurse: what it settles is told after it returns, by the
    same thread. Tasks are woken by their own loop, all those of one loop with one call into it.
    """

    def __init__(self, on_error: ErrorHandler) -> None:
        self._on_error = on_error
        self._own = threading.local()

    def tell(self, awaited: list[Operation]) -> None:
        awaiting: dict[asyncio.AbstractEventLoop | None, list[Awaiting]] = {}
        calls: list[Callable[[], object]] = []
        for operation in awaited:
            waiters = operation.waiters
            operation.waiters = None
            for waiter in waiters if isinstance(waiters, dict) else (waiters,):
                if isinstance(waiter, Awaiting):
                    awaiting.setdefault(waiter.loop, []).append(waiter)
                elif waiter is not None:
                    calls.append(waiter)
        if awaiting:
            _wake(awaiting)
        if calls:
            self._call_all(calls)

    def _call_all(self, calls: list[Callable[[], object]]) -> None:
        queue: deque[Callable[[], object]] | None = getattr(self._own, "queue", None)
        if queue is not None:
            queue.extend(calls)
            return
        self._own.queue = queue = deque(calls)
        failure = None
        while queue:
            try:
                self.call(queue.popleft())
            except BaseException as error:
                # An exit, or Ctrl-C: it goes on when everybody is told.
                failure = failure or error
        del self._own.queue
        if failure is not None:
            raise failure

    def call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception as error:
            self.report(error, callback)

    def report(self, error: BaseException, source: object) -> None:
        """Call the error handler and survive it."""
        try:
            self._on_error(error, source)
        except Exception as second:
            log_error(second, self._on_error)


def _wake(awaiting: dict[asyncio.AbstractEventLoop | None, list[Awaiting]]) -> None:
    running = asyncio._get_running_loop()
    for loop, waiting in awaiting.items():
        if loop is None or loop is running:
            wake_all(waiting)
        else:
            try:
                loop.call_soon_threadsafe(wake_all, waiting)
            except RuntimeError:
                # The loop was closed.
                forget_all(waiting)
