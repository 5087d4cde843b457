# cython: annotation_typing=False
"""One `await` of a ticket: as much of a future as a task asks of what it waits for.

A hundred thousand waits are a hundred thousand of these. A future and a generator for each would do as well, and cost
more than the wait itself, most of it in the cyclic collector, which compiled never sees this one: what wakes or cancels
the task, or throws into it, also parts the two.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    import cython  # type: ignore[import-untyped]

    from dwell.ledger.ledger import Ledger
    from dwell.ledger.operation import Operation
else:
    from dwell.ledger import directive as cython


@cython.no_gc
@cython.cclass
class Awaiting:
    """Used by the thread of its loop, but for `loop`, which never changes."""

    __slots__ = ("_asyncio_future_blocking", "_callback", "_context", "_is_cancelled", "_ledger", "_operation", "loop")

    _ledger: Ledger
    _operation: Operation
    loop: asyncio.AbstractEventLoop
    _callback: Callable[[Awaiting], object] | None  # wakes the task
    _context: Context | None
    _is_cancelled: bool
    _asyncio_future_blocking: bool  # by this name a task knows a future, and whether it was awaited

    # -- for the coroutine that awaits

    def __iter__(self) -> Awaiting:
        return self

    def __next__(self) -> Awaiting:
        operation = self._operation
        if operation.outcome is None and self._ledger._add_waiter(operation, self):
            self._asyncio_future_blocking = True
            return self
        raise StopIteration(operation.row())

    def send(self, _value: object) -> Awaiting:
        return self.__next__()

    def throw(self, kind: object, value: object = None, _traceback: object = None) -> Awaiting:
        self.close()
        if isinstance(kind, BaseException):
            raise kind
        if isinstance(value, BaseException):
            raise value
        raise kind  # type: ignore[misc]

    def close(self) -> None:
        self._callback = self._context = None
        self._ledger._remove_waiter(self._operation, self)

    # -- for its task

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.loop

    def add_done_callback(self, callback: Callable[[Awaiting], object], *, context: Context | None = None) -> None:
        self._callback = callback
        self._context = context

    def cancel(self, msg: object = None) -> bool:
        """Cancelling who awaits leaves the wait open."""
        if self._callback is None:
            return False
        self._ledger._remove_waiter(self._operation, self)
        self._is_cancelled = True
        self.wake()
        return True

    def result(self) -> None:
        if self._is_cancelled:
            raise asyncio.CancelledError

    # -- for the ledger

    def wake(self) -> None:
        callback, context = self._callback, self._context
        self._callback = self._context = None
        if callback is not None:
            self.loop.call_soon(callback, self, context=context)


def make_awaiting(ledger: Ledger, operation: Operation) -> Awaiting:
    awaiting = Awaiting.__new__(Awaiting)
    awaiting._ledger = ledger
    awaiting._operation = operation
    awaiting.loop = asyncio.get_running_loop()
    awaiting._callback = awaiting._context = None
    awaiting._is_cancelled = awaiting._asyncio_future_blocking = False
    return awaiting


def wake_all(awaiting: list[Awaiting]) -> None:
    for one in awaiting:
        one.wake()


def forget_all(awaiting: list[Awaiting]) -> None:
    """Their loop is closed: nobody awaits there any more."""
    for one in awaiting:
        one._callback = one._context = None
