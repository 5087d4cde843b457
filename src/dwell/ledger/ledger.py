# cython: annotation_typing=False, nonecheck=True
"""The live ledger: the engine under one lock, a clock for its time, a thread that expires what is due."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, Self

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, ErrorHandler, Full, InvalidArgument, InvalidType, log_error
from dwell.ledger import instant
from dwell.ledger.check import check_event
from dwell.ledger.engine import Engine
from dwell.ledger.explanation import Explanation, explain
from dwell.ledger.item import MAX_LEVEL
from dwell.ledger.mutex import Mutex
from dwell.ledger.reason import BEFORE_ALL, MAX_MS
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.ticket import Ticket, make_ticket
from dwell.ledger.wake import Waking

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwell.ledger.operation import Operation
    from dwell.ledger.value import Need
    from dwell.ledger.wake import Waiter

NEVER = MAX_MS + 1

# How long the reaper sleeps at most. An idle ledger forgets old keys and op_ids this often, and a clock that a test
# moves is read this often.
POLL_MS = 200

# How long the reaper waits after the clock or a callback has raised, before it tries again. Doubled each time, up to
# POLL_MS.
RETRY_MS = 1

# An hour: a level is small, and one that was forgotten lets a wait for it expire.
KEY_RETENTION_MS = 3_600_000

# A minute: at 10,000 waits a second that is some 250 MB.
OP_RETENTION_MS = 60_000

MAX_OPEN = 1_000_000


ClosePolicy = Literal["leave", "expire", "cancel"]


class Ledger:
    """Open waits and the events they wait for. Every method may be called from any thread.

    `max_open`: more open waits than this are refused with `Full`. `key_retention_ms`: how long the level of a key that
    nobody waits for counts after its last event; its memory is given back within twice that time. `op_retention_ms`:
    how long an op_id is known after its outcome. None: for ever. `on_error` gets what callbacks raise.

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
        on_error: ErrorHandler = log_error,
    ) -> None:
        if not isinstance(max_open, int):
            raise InvalidType(f"max_open must be an integer, not {max_open!r}")
        if max_open < 1:
            raise InvalidArgument(f"max_open must be at least 1, not {max_open}")
        self.name = name
        self._clock = SystemClock() if clock is None else clock
        self._is_system = type(self._clock) is SystemClock
        self._max_open = min(max_open, MAX_LEVEL)
        self._engine = Engine(key_retention_ms, op_retention_ms)
        self._mutex = Mutex()
        self._waking = Waking(on_error)
        # The deadline the reaper sleeps for; an earlier one wakes it. Without a reaper, or once it is woken, no
        # deadline is earlier.
        self._alarm_ms = NEVER if reaper else BEFORE_ALL
        # Locked while nothing wakes the reaper. Only released under the ledger's lock.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._closed = False
        self._reaper = threading.Thread(target=self._reap, name=f"dwell-{name}", daemon=True) if reaper else None
        if self._reaper is not None:
            self._reaper.start()

    # -- waits

    def open(
        self,
        op_id: str | None,
        needs: Iterable[Need] | None,
        delay_ms: int | None,
        *,
        quorum: int | None = None,
        volume: int | None = None,
    ) -> Ticket:
        """Wait for `needs`, at most `delay_ms` from now. O(log waiting) a need.

        A wait the contract rejects gives a ticket that is settled as rejected, with the reason. `Full` if as many waits
        are open as may be, `InvalidType` for an argument of a wrong kind, `Closed` after close.
        """
        rows = needs if needs is None else tuple(needs)
        engine = self._engine
        self._enter(False)
        try:
            if engine.pending >= self._max_open:
                raise Full(f"{self.name}: {engine.pending} waits are open, max_open is {self._max_open}")
            operation = engine.open((op_id, rows, delay_ms, engine.now_ms, quorum, volume))
            engine.settle()
            if engine.deadlines.has_up_to(self._alarm_ms - 1):
                self._wake_reaper()
        finally:
            self._leave()
        return make_ticket(self, operation)

    def explain(self, op_id: str) -> Explanation | None:
        """What the operation waits for and what is met, since when; None if none of that op_id waits."""
        self._mutex.acquire()
        try:
            operation = self._engine.register.operations.get(op_id)
            if operation is None or operation.outcome is not None:
                return None
            return explain(operation, self._engine.keys)
        finally:
            self._mutex.release()

    # -- events

    def record(self, key: str | None, level: int | None = None) -> int:
        """Something happened to `key` now. Returns how many waits that completed. Without a key: counted, set aside."""
        if key is None:
            return self.record_many(((key, level),))
        check_event(key, level)
        engine = self._engine
        self._enter(False)
        try:
            before = engine.completed
            engine.record(key, level)
            engine.settle()
            completed = engine.completed - before
        finally:
            self._leave()
        return completed

    def record_many(self, events: Iterable[tuple[str | None, int | None]]) -> int:
        """All these (key, level) happened at once: one instant, one time under the lock."""
        rows = [(key, level) for key, level in events]
        for key, level in rows:
            check_event(key, level)
        engine = self._engine
        self._enter(False)
        try:
            before = engine.completed
            for key, level in rows:
                if key is None:
                    engine.set_aside += 1
                else:
                    engine.record(key, level)
            engine.settle()
            completed = engine.completed - before
        finally:
            self._leave()
        return completed

    # -- time

    def advance(self) -> int:
        """End the current millisecond: expire all that is due up to and with it. Returns how many expired.

        For ledgers without a reaper.
        """
        engine = self._engine
        before = self._enter(True)
        try:
            engine.expire(engine.now_ms)
            expired = engine.expired - before
        finally:
            self._leave()
        return expired

    def _reap(self) -> None:
        retry_ms = RETRY_MS
        while not self._closed:
            try:
                sleep_ms = self._look()
                retry_ms = RETRY_MS
            except BaseException as error:
                # Of the clock, or an exit by a callback. The waits of everybody else go on.
                self._waking.report(error, self)
                sleep_ms = retry_ms
                retry_ms = min(2 * retry_ms, POLL_MS)
            self._bell.acquire(timeout=min(sleep_ms, POLL_MS) / 1000)

    def _look(self) -> int:
        """Expire what is due and forget what has had its time. Returns how long the next deadline is away."""
        self._enter(True)
        try:
            engine = self._engine
            self._alarm_ms = engine.deadlines.first_rank() if len(engine.deadlines) else NEVER
            # One millisecond after the deadline, whose events still count.
            return self._alarm_ms + 1 - engine.now_ms
        finally:
            self._leave()

    def _wake_reaper(self) -> None:
        """Under the lock."""
        self._alarm_ms = BEFORE_ALL
        if self._bell.locked():
            self._bell.release()

    # -- life

    def statistics(self) -> LedgerStatistics:
        """A frozen snapshot; the identity holds in it."""
        self._mutex.acquire()
        try:
            return LedgerStatistics.of(self._engine)
        finally:
            self._mutex.release()

    def close(self, policy: ClosePolicy = "cancel") -> None:
        """Take nothing more in, and end the reaper. What still waits is cancelled; or expired, as if time ran on and
        nothing happened; or left as it is, to be cancelled by its ticket. A second call does nothing.
        """
        if policy not in ("leave", "expire", "cancel"):
            raise InvalidArgument(f"policy must be 'leave', 'expire' or 'cancel', not {policy!r}")
        engine = self._engine
        # A clock that raises must not keep the ledger open; then the time is that of the call before.
        self._waking.call(self._advance_to_now)
        self._mutex.acquire()
        try:
            if self._closed:
                return
            self._closed = True
            self._wake_reaper()
            if policy == "expire":
                engine.expire(MAX_MS)
            elif policy == "cancel":
                for operation in engine.waiting():
                    engine.cancel(operation)
        finally:
            self._leave()
        if self._reaper is not None and self._reaper is not threading.current_thread():
            self._reaper.join()

    def _advance_to_now(self) -> None:
        self._enter(True)
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger {self.name!r} pending={self._engine.pending}>"

    # -- the lock

    def _enter(self, even_closed: bool) -> int:
        """Take the lock and move on to now; returns how many had expired before that. The clock is read outside the
        lock, since its code may be anybody's; the engine never goes back.
        """
        now_ms = instant.now_ms(self._clock, self._is_system)
        self._mutex.acquire()
        try:
            if self._closed and not even_closed:
                raise Closed(f"{self.name} is closed")
            expired = self._engine.expired
            self._engine.at(now_ms)
        except BaseException:
            self._mutex.release()
            raise
        return expired

    def _leave(self) -> None:
        """Give the lock back, then tell those who wait for what was settled under it."""
        awaited = None
        try:
            # An exception may have left some ripe.
            self._engine.settle()
            settled = self._engine.settled
            if settled:
                awaited = [operation for operation in settled if operation.waiters is not None]
                self._engine.settled = []
        finally:
            self._mutex.release()
        if awaited:
            self._waking.tell(awaited)

    # -- for tickets

    def _add_waiter(self, operation: Operation, waiter: Waiter) -> bool:
        """False if there is an outcome already: nobody will be woken."""
        self._mutex.acquire()
        try:
            if operation.outcome is not None:
                return False
            if operation.waiters is None:
                operation.waiters = waiter
            elif isinstance(operation.waiters, dict):
                operation.waiters[waiter] = None
            else:
                operation.waiters = {operation.waiters: None, waiter: None}
            return True
        finally:
            self._mutex.release()

    def _remove_waiter(self, operation: Operation, waiter: Waiter) -> None:
        self._mutex.acquire()
        try:
            # Once there is an outcome they belong to the thread that wakes; taking one away could skip another.
            if operation.outcome is None:
                if isinstance(operation.waiters, dict):
                    operation.waiters.pop(waiter, None)
                elif operation.waiters == waiter:
                    operation.waiters = None
        finally:
            self._mutex.release()

    def _cancel(self, operation: Operation) -> bool:
        self._enter(True)
        try:
            is_cancelled = operation.outcome is None
            self._engine.cancel(operation)
        finally:
            self._leave()
        return is_cancelled
