"""Telling those who wait for an outcome: threads, coroutines, callbacks. Always under no lock."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from dwell.errors import report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwell.errors import ErrorHandler

Waiter = Callable[[], object] | asyncio.Future[None]


class Notifier:
    """Tells waiters, in the order of the outcomes.

    A callback that settles further operations does not recurse: what it settles is told after it returns, by the
    same thread. Coroutines are woken by their own loop, all those of one loop with one call into it.
    """

    def __init__(self, on_error: ErrorHandler) -> None:
        self._on_error = on_error
        self._own = threading.local()

    def tell(self, waiters: Iterable[Waiter]) -> None:
        futures: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        callbacks: list[Callable[[], object]] = []
        for waiter in waiters:
            if isinstance(waiter, asyncio.Future):
                futures.setdefault(waiter.get_loop(), []).append(waiter)
            else:
                callbacks.append(waiter)
        for loop, waiting in futures.items():
            if loop is asyncio._get_running_loop():
                _finish_all(waiting)
            else:
                try:
                    loop.call_soon_threadsafe(_finish_all, waiting)
                except RuntimeError:
                    # The loop was closed: nobody waits any more.
                    continue
        if callbacks:
            self.call_all(callbacks)

    def call_all(self, callbacks: list[Callable[[], object]]) -> None:
        """Call them all, whatever some of them raise."""
        queue: deque[Callable[[], object]] | None = getattr(self._own, "queue", None)
        if queue is not None:
            queue.extend(callbacks)
            return
        self._own.queue = queue = deque(callbacks)
        failure = None
        while queue:
            try:
                self.call(queue.popleft())
            except BaseException as error:
                # An exit, or Ctrl-C: raised when everybody is told.
                failure = failure or error
        del self._own.queue
        if failure is not None:
            raise failure

    def call(self, callback: Callable[[], object]) -> None:
        """Call it; an exception goes to the error handler."""
        try:
            callback()
        except Exception as error:
            report(self._on_error, error, callback)


def _finish_all(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
