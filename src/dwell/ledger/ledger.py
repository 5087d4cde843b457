"""The live ledger: the engine under one lock, a clock for its time, a thread that expires what is due."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Self, overload

from dwell.clock import Clock, SystemClock
from dwell.contract.time_range import AFTER_ALL, BEFORE_ALL, MAX_MS
from dwell.errors import Closed, ErrorHandler, Full, InvalidArgument, InvalidType, log_error
from dwell.ledger.admission import check_event
from dwell.ledger.engine import Engine
from dwell.ledger.lock import Lock
from dwell.ledger.notify import Notifier
from dwell.ledger.row import Wait
from dwell.ledger.ticket import Ticket
from dwell.reaper import POLL_MS, Reaper

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwell.ledger.explanation import Explanation
    from dwell.ledger.notify import Waiter
    from dwell.ledger.operation import Operation
    from dwell.ledger.row import Need
    from dwell.ledger.statistics import LedgerStatistics

# An hour: a level is small, and one that was forgotten lets a wait for it expire.
KEY_RETENTION_MS = 3_600_000

# A minute: at 10,000 waits per second that is some 250 MB.
OP_RETENTION_MS = 60_000

MAX_OPEN = 1_000_000

ClosePolicy = Literal["leave", "expire", "cancel"]


class Ledger:
    """Open waits and the events they wait for. Every method may be called from any thread.

    `max_open`: more open waits than this are refused with `Full`. `key_retention_ms`: how long the level of a key that
    nobody waits for counts after its last event; its memory is given back within twice that time. `op_retention_ms`:
    how long an op_id is known after its outcome. None: for ever. `on_error` gets what callbacks raise, and what the
    clock raises in the thread that expires waits.

    An operation expires in the millisecond after its deadline, so that an event in the deadline's own millisecond still
    completes it, as the contract says. With `reaper=False` no thread is started, and `advance()` expires what is due.
    """

    def __init__(
        self,
        name: str = "ledger",
        *,
        clock: Clock | None = None,
        max_open: int = MAX_OPEN,
        key_retention_ms: int | None = KEY_RETENTION_MS,
        op_retention_ms: int | None = OP_RETENTION_MS,
        reaper: bool = True,
        on_error: ErrorHandler | None = None,
    ) -> None:
        if not isinstance(max_open, int):
            raise InvalidType(f"max_open must be an integer, not {max_open!r}")
        if max_open < 1:
            raise InvalidArgument(f"max_open must be at least 1, not {max_open}")
        on_error = log_error if on_error is None else on_error
        self.name = name
        self.clock = SystemClock() if clock is None else clock
        self._max_open = max_open
        self._engine = Engine(key_retention_ms, op_retention_ms)
        self._lock = Lock()
        self._notifier = Notifier(on_error)
        # The deadline the reaper sleeps for; an earlier one wakes it. Without a reaper, or once it is woken, no
        # deadline is earlier.
        self._alarm_ms = AFTER_ALL if reaper else BEFORE_ALL
        # Locked while nothing wakes the reaper. Only released under the ledger's lock.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._closed = False
        self._sleep_ms = 0  # how long the reaper sleeps next, unless it is woken
        self._reaper = Reaper(f"dwell-{name}", self._turn, on_error, self._ring) if reaper else None
        if self._reaper is not None:
            self._reaper.start()

    # -- waits

    @overload
    def open(self, op_id: Wait) -> Ticket: ...

    @overload
    def open(
        self,
        op_id: str | None,
        needs: Iterable[Need] | None,
        delay_ms: int | None,
        *,
        quorum: int | None = None,
        volume: int | None = None,
    ) -> Ticket: ...

    def open(
        self,
        op_id: str | Wait | None,
        needs: Iterable[Need] | None = None,
        delay_ms: int | None = None,
        *,
        quorum: int | None = None,
        volume: int | None = None,
    ) -> Ticket:
        """Wait for `needs`, at most `delay_ms` from now. O(log waiting) per need.

        A `Wait` may be given in place of all arguments. It is submitted now, whatever its `submitted_at_ms`.

        A wait the contract rejects gives a ticket that is settled as rejected, with the reason. `Full` if as many waits
        are open as may be, `InvalidType` for an argument of a wrong kind, `Closed` after close.
        """
        if isinstance(op_id, Wait):
            if any(argument is not None for argument in (needs, delay_ms, quorum, volume)):
                raise InvalidArgument("a Wait must be the only argument: it has needs and delay_ms already")
            op_id, needs, delay_ms, _, quorum, volume = op_id
        rows = needs if needs is None else tuple(needs)
        with self._inside(self.clock.now_ms()) as engine:
            if engine.pending >= self._max_open:
                raise Full(f"{self.name}: {engine.pending} waits are open, max_open is {self._max_open}")
            operation = engine.open(Wait(op_id, rows, delay_ms, engine.now_ms, quorum, volume))
            engine.settle()
            next_ms = engine.next_deadline_ms()
            if next_ms is not None and next_ms < self._alarm_ms:
                self._wake_reaper()
        return Ticket(self, operation)

    def explain(self, op_id: str) -> Explanation | None:
        """What the operation waits for and what is met, since when; None if none of that op_id waits."""
        with self._lock:
            return self._engine.explain(op_id)

    # -- events

    def record(self, key: str | None, level: int | None = None) -> int:
        """Something happened to `key` now. Returns how many waits that completed. Without a key: counted, set aside."""
        return self.record_many(((key, level),))

    def record_many(self, events: Iterable[tuple[str | None, int | None]]) -> int:
        """All these (key, level) happened at once: one instant, one time under the lock."""
        rows = [(key, level) for key, level in events]
        for key, level in rows:
            check_event(key, level)
        with self._inside(self.clock.now_ms()) as engine:
            before = engine.completed
            for key, level in rows:
                if key is None:
                    engine.set_aside += 1
                else:
                    engine.record(key, level)
            engine.settle()
            return engine.completed - before

    # -- time

    def advance(self) -> int:
        """End the current millisecond: expire all that is due in it or before. Returns how many expired.

        For ledgers without a reaper.
        """
        now_ms = self.clock.now_ms()
        with self._inside(BEFORE_ALL, even_closed=True) as engine:
            before = engine.expired
            engine.at(now_ms)
            engine.expire(engine.now_ms)
            return engine.expired - before

    def _turn(self) -> bool:
        """One turn of the reaper: sleep until the next deadline is over, or something wakes it, and look."""
        self._bell.acquire(timeout=max(0, min(self._sleep_ms, POLL_MS)) / 1000)
        # If looking fails the next turn must not sleep.
        self._sleep_ms = 0
        self._look()
        return True

    def _look(self) -> None:
        """Expire what is due and forget what is too old. Set the alarm for the next deadline."""
        with self._inside(self.clock.now_ms(), even_closed=True) as engine:
            next_ms = engine.next_deadline_ms()
            self._alarm_ms = AFTER_ALL if next_ms is None else next_ms
            # One millisecond after the deadline, whose events still count.
            self._sleep_ms = self._alarm_ms + 1 - engine.now_ms

    def _wake_reaper(self) -> None:
        """Under the lock."""
        self._alarm_ms = BEFORE_ALL
        if self._bell.locked():
            self._bell.release()

    def _ring(self) -> None:
        with self._lock:
            self._wake_reaper()

    # -- life

    def statistics(self) -> LedgerStatistics:
        """A frozen snapshot; the identity holds in it."""
        with self._lock:
            return self._engine.statistics()

    def close(self, policy: ClosePolicy = "cancel") -> None:
        """Take nothing more in, and end the reaper. What still waits is cancelled; or expired, as if time ran on and
        nothing happened; or left as it is, to be cancelled by its ticket. A second call does nothing.
        """
        if policy not in ("leave", "expire", "cancel"):
            raise InvalidArgument(f"policy must be 'leave', 'expire' or 'cancel', not {policy!r}")
        # A clock that raises must not keep the ledger open; then the time is that of the call before.
        self._notifier.call(self._look)
        with self._inside(BEFORE_ALL, even_closed=True) as engine:
            if self._closed:
                return
            self._closed = True
            if policy == "expire":
                engine.expire(MAX_MS)
            elif policy == "cancel":
                for operation in engine.waiting():
                    engine.cancel(operation)
        if self._reaper is not None:
            self._reaper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger {self.name!r} pending={self._engine.pending}>"

    # -- the lock

    @contextmanager
    def _inside(self, now_ms: int, *, even_closed: bool = False) -> Iterator[Engine]:
        """The engine under the lock, moved on to `now_ms`; its time never goes back. Afterwards, under no lock, those
        who wait for what was settled are told.

        Callers read the clock before they come here, since its code may be anybody's.
        """
        waiters: list[Waiter] = []
        try:
            with self._lock:
                if self._closed and not even_closed:
                    raise Closed(f"{self.name} is closed")
                try:
                    self._engine.at(now_ms)
                    yield self._engine
                finally:
                    # An exception may have left some ripe.
                    self._engine.settle()
                    settled, self._engine.settled = self._engine.settled, []
                    for operation in settled:
                        waiters.extend(operation.waiters or ())
                        operation.waiters = None
        finally:
            if waiters:
                self._notifier.tell(waiters)

    # -- for tickets

    def _add_waiter(self, operation: Operation, waiter: Waiter) -> bool:
        """False if there is an outcome already: nobody will be told."""
        with self._lock:
            if operation.outcome is not None:
                return False
            if operation.waiters is None:
                operation.waiters = {}
            operation.waiters[waiter] = None
            return True

    def _remove_waiter(self, operation: Operation, waiter: Waiter) -> None:
        try:
            with self._lock:
                if operation.waiters is not None:
                    operation.waiters.pop(waiter, None)
        except RuntimeError:
            # The coroutine is collected by a thread that is inside the ledger. What is left there wakes nobody.
            return

    def _cancel(self, operation: Operation) -> bool:
        with self._inside(self.clock.now_ms(), even_closed=True) as engine:
            is_cancelled = operation.outcome is None
            engine.cancel(operation)
        return is_cancelled
