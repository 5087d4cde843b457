# cython: annotation_typing=False
"""Waking those who wait for an outcome: threads, coroutines, callbacks. Always under no lock."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from dwell.errors import log_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from dwell.errors import ErrorHandler
    from dwell.ledger.operation import Operation

    Waiter = Callable[[], object] | asyncio.Future[None]
    Futures = dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]]


class Waking:
    """Tells waiters, in the order of the outcomes.

    A callback that settles further operations does not recurse: what it settles is told after it returns, by the
    same thread. Futures are set by their own loop, all those of one loop with one call into it.
    """

    def __init__(self, on_error: ErrorHandler) -> None:
        self._on_error = on_error
        self._own = threading.local()

    def tell(self, awaited: list[Operation]) -> None:
        queue: deque[Operation] | None = getattr(self._own, "queue", None)
        if queue is not None:
            queue.extend(awaited)
            return
        self._own.queue = queue = deque(awaited)
        try:
            while queue:
                self._tell_all(queue)
        finally:
            del self._own.queue

    def _tell_all(self, queue: deque[Operation]) -> None:
        futures: Futures = {}
        while queue:
            operation = queue.popleft()
            waiters = operation.waiters
            operation.waiters = None
            if isinstance(waiters, list):
                for waiter in waiters:
                    self._tell(waiter, futures)
            else:
                self._tell(waiters, futures)
        if not futures:
            return
        running = asyncio._get_running_loop()
        for loop, waiting in futures.items():
            if loop is running:
                _set_all(waiting)
            else:
                try:
                    loop.call_soon_threadsafe(_set_all, waiting)
                except RuntimeError:
                    # The loop was closed: nobody awaits there any more.
                    continue

    def _tell(self, waiter: Any, futures: Futures) -> None:
        if isinstance(waiter, asyncio.Future):
            futures.setdefault(waiter.get_loop(), []).append(waiter)
        else:
            self.call(waiter)

    def call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception as error:
            try:
                self._on_error(error, callback)
            except Exception as second:
                log_error(second, self._on_error)


def _set_all(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
