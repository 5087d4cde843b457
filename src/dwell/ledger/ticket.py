"""The caller's end of a wait."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from dwell.ledger.ledger import Ledger
    from dwell.ledger.operation import Operation
    from dwell.ledger.row import Outcome


class Ticket:
    """One open wait. Block for its outcome in a thread, `await` it in asyncio, or cancel it; from any thread, any
    number of times, by any number of waiters.
    """

    __slots__ = ("_ledger", "_operation")

    def __init__(self, ledger: Ledger, operation: Operation) -> None:
        self._ledger = ledger
        self._operation = operation

    @property
    def op_id(self) -> str | None:
        return self._operation.op_id

    @property
    def outcome(self) -> Outcome | None:
        """The outcome, None while the operation waits."""
        return None if self._operation.outcome is None else self._operation.row()

    def result(self, timeout: float | None = None) -> Outcome:
        """Block until there is an outcome. After `timeout` seconds without one, TimeoutError; the wait stays open."""
        operation = self._operation
        if operation.outcome is None and (timeout is None or timeout > 0):
            gate = threading.Lock()
            gate.acquire()
            if self._ledger._add_waiter(operation, gate.release):
                try:
                    gate.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
                finally:
                    self._ledger._remove_waiter(operation, gate.release)
        if operation.outcome is None:
            raise TimeoutError(f"{self.op_id!r} has no outcome after {timeout} s")
        return operation.row()

    def __await__(self) -> Generator[object, None, Outcome]:
        """The outcome. Cancelling the task that awaits leaves the wait open; `cancel()` ends it."""
        operation = self._operation
        if operation.outcome is None:
            future = asyncio.get_running_loop().create_future()
            if self._ledger._add_waiter(operation, future):
                try:
                    yield from future
                finally:
                    self._ledger._remove_waiter(operation, future)
        return operation.row()

    def add_done_callback(self, callback: Callable[[Ticket], object]) -> None:
        """Have `callback(ticket)` called once there is an outcome: at once if there is one, else by the thread that
        settles it, under no lock. What it raises goes to the ledger's error handler.
        """
        call = partial(callback, self)
        if not self._ledger._add_waiter(self._operation, call):
            self._ledger._notifier.call(call)

    def cancel(self) -> bool:
        """End the wait. True if that made it cancelled, False if it had an outcome, or its deadline was over."""
        return self._ledger._cancel(self._operation)

    def __repr__(self) -> str:
        return f"<Ticket {self.op_id!r}: {self.outcome or 'waiting'}>"
