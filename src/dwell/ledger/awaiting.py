# cython: annotation_typing=False, nonecheck=True
"""One `await` of a ticket: as much of a future as a task asks of what it waits for.

A hundred thousand waits are a hundred thousand of these. A future and a generator for each would do as well, and cost
more than the wait itself.
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


@cython.cclass
class Awaiting:
    """Used by the thread of its loop, but for `loop`, which is set before it is shared."""

    __slots__ = (
        "_asyncio_future_blocking",
        "_callback",
        "_context",
        "_is_cancelled",
        "_is_woken",
        "_ledger",
        "_message",
        "_operation",
        "loop",
    )

    _ledger: Ledger
    _operation: Operation
    loop: asyncio.AbstractEventLoop | None
    _callback: Callable[[Awaiting], object] | None  # wakes the task
    _context: Context | None
    _is_woken: bool
    _is_cancelled: bool
    _message: object  # of whoever cancelled
    _asyncio_future_blocking: bool  # by this name a task knows a future, and whether it was awaited

    # -- for the coroutine that awaits

    def __iter__(self) -> Awaiting:
        return self

    def __next__(self) -> Awaiting:
        operation = self._operation
        if operation.outcome is None:
            self.loop = asyncio.get_running_loop()
            if self._ledger._add_waiter(operation, self):
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
        self.forget()
        try:
            self._ledger._remove_waiter(self._operation, self)
        except RuntimeError:
            # The coroutine is collected by a thread that is inside the ledger. What is left there wakes nobody.
            return

    # -- for its task

    def get_loop(self) -> asyncio.AbstractEventLoop | None:
        return self.loop

    def add_done_callback(self, callback: Callable[[Awaiting], object], *, context: Context | None = None) -> None:
        self._callback = callback
        self._context = context
        if self._is_woken:
            self.wake()

    def cancel(self, msg: object = None) -> bool:
        """Cancelling who awaits leaves the wait open."""
        if self._callback is None:
            return False
        self._ledger._remove_waiter(self._operation, self)
        self._is_cancelled = True
        self._message = msg
        self.wake()
        return True

    def result(self) -> None:
        if self._is_cancelled:
            raise asyncio.CancelledError() if self._message is None else asyncio.CancelledError(self._message)

    # -- for the ledger

    def wake(self) -> None:
        callback, context = self._callback, self._context
        self.forget()
        self._is_woken = True
        if callback is not None and self.loop is not None:
            self.loop.call_soon(callback, self, context=context)

    def forget(self) -> None:
        """Nobody awaits any more."""
        self._callback = self._context = None


def make_awaiting(ledger: Ledger, operation: Operation) -> Awaiting:
    awaiting = Awaiting.__new__(Awaiting)
    awaiting._ledger = ledger
    awaiting._operation = operation
    awaiting.loop = None
    awaiting._callback = awaiting._context = None
    awaiting._is_woken = awaiting._is_cancelled = awaiting._asyncio_future_blocking = False
    awaiting._message = None
    return awaiting


def wake_all(awaiting: list[Awaiting]) -> None:
    for one in awaiting:
        one.wake()


def forget_all(awaiting: list[Awaiting]) -> None:
    for one in awaiting:
        one.forget()
