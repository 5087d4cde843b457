# cython: annotation_typing=False
"""The caller's end of a wait."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from dwell.ledger.awaiting import make_awaiting

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import cython  # type: ignore[import-untyped]

    from dwell.ledger.ledger import Ledger
    from dwell.ledger.operation import Operation
    from dwell.ledger.value import Outcome
else:
    from dwell.ledger import directive as cython


@cython.no_gc
@cython.cclass
class Ticket:
    """One open wait. Block for its outcome in a thread, `await` it in asyncio, or cancel it; from any thread, any
    number of times, by any number of waiters.
    """

    __slots__ = ("_ledger", "_operation")

    _ledger: Ledger
    _operation: Operation

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
            seconds = -1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            if self._ledger._add_waiter(operation, gate.release) and not gate.acquire(timeout=seconds):
                self._ledger._remove_waiter(operation, gate.release)
        if operation.outcome is None:
            raise TimeoutError(f"{self.op_id!r} has no outcome after {timeout} s")
        return operation.row()

    def __await__(self) -> Generator[object, None, Outcome]:
        """The outcome. Cancelling who awaits leaves the wait open; `cancel()` ends it."""
        # It does what is done to a generator here.
        return make_awaiting(self._ledger, self._operation)

    def add_done_callback(self, callback: Callable[[Ticket], object]) -> None:
        """Have `callback(ticket)` called once there is an outcome: at once if there is one, else by the thread that
        settles it, under no lock. What it raises goes to the ledger's error handler.
        """
        call = partial(callback, self)
        if not self._ledger._add_waiter(self._operation, call):
            self._ledger._waking.call(call)

    def cancel(self) -> bool:
        """End the wait. True if that made it cancelled, False if it had an outcome, or its deadline was over."""
        return self._ledger._cancel(self._operation)

    def __repr__(self) -> str:
        return f"<Ticket {self.op_id!r}: {self.outcome or 'waiting'}>"


def make_ticket(ledger: Ledger, operation: Operation) -> Ticket:
    ticket = Ticket.__new__(Ticket)
    ticket._ledger = ledger
    ticket._operation = operation
    return ticket
