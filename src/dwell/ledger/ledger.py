# cython: annotation_typing=False
"""The live ledger: the engine under one lock, a clock for its time, a timer for its deadlines."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, Self

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, ErrorHandler, Full, InvalidArgument, log_error
from dwell.ledger import instant
from dwell.ledger.check import check_event
from dwell.ledger.engine import Engine
from dwell.ledger.explanation import Explanation, explain
from dwell.ledger.mutex import Mutex
from dwell.ledger.reason import BEFORE_ALL, MAX_MS
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.ticket import Ticket, make_ticket
from dwell.ledger.wake import Waking
from dwell.timer import InlineExecutor, SystemTimer, TimerTask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwell.ledger.operation import Operation
    from dwell.ledger.value import Need
    from dwell.ledger.wake import Waiter

NEVER = MAX_MS + 1

# How long the reaper sleeps at most before it looks whether it shall end.
POLL_MS = 200

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
        if max_open < 1:
            raise InvalidArgument(f"max_open must be at least 1, not {max_open}")
        for field, value in (("key_retention_ms", key_retention_ms), ("op_retention_ms", op_retention_ms)):
            if value is not None and value < 0:
                raise InvalidArgument(f"{field} must not be negative, not {value}")
        self.name = name
        self._clock = SystemClock() if clock is None else clock
        self._is_system = type(self._clock) is SystemClock
        self._max_open = max_open
        self._engine = Engine(key_retention_ms, op_retention_ms)
        self._mutex = Mutex()
        self._waking = Waking(on_error)
        self._timer = SystemTimer(name, clock=self._clock, executor=InlineExecutor(), on_error=on_error)
        self._alarm = TimerTask(1, self._ring)
        # The deadline it is set for; without a reaper one that is never early enough to set another.
        self._alarm_ms = NEVER if reaper else BEFORE_ALL
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
                self._set_alarm()
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
        before = engine.expired
        self._enter(True)
        try:
            engine.expire(engine.now_ms)
            expired = engine.expired - before
        finally:
            self._leave()
        return expired

    def _ring(self) -> None:
        """The alarm: what is overdue expires on entering; set it again."""
        self._enter(True)
        try:
            self._alarm_ms = NEVER
            if len(self._engine.deadlines) and not self._closed:
                self._set_alarm()
        finally:
            self._leave()

    def _set_alarm(self) -> None:
        """Under the lock, so that of two deadlines the earlier wins. Never due at once: the deadline is not over."""
        self._alarm_ms = self._engine.deadlines.first_rank()
        # One millisecond after the deadline, whose events still count.
        self._timer.reschedule(self._alarm, max(1, self._alarm_ms + 1 - self._clock.now_ms()))

    def _reap(self) -> None:
        while not self._closed:
            self._timer.advance_clock(POLL_MS)

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
        self._enter(True)
        try:
            if self._closed:
                return
            self._closed = True
            if policy == "expire":
                engine.expire(MAX_MS)
            elif policy == "cancel":
                for operation in engine.waiting():
                    engine.cancel(operation)
        finally:
            self._leave()
        self._timer.close()
        if self._reaper is not None and self._reaper is not threading.current_thread():
            self._reaper.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger {self.name!r} pending={self._engine.pending}>"

    # -- the lock

    def _enter(self, even_closed: bool) -> None:
        """Take the lock and move on to now. The clock is read before: while others hold the lock it may stand still,
        and the engine never goes back.
        """
        now_ms = instant.now_ms(self._clock, self._is_system)
        self._mutex.acquire()
        try:
            if self._closed and not even_closed:
                raise Closed(f"{self.name} is closed")
            self._engine.at(now_ms)
        except BaseException:
            self._mutex.release()
            raise

    def _leave(self) -> None:
        """Give the lock back, then tell those who wait for what was settled under it."""
        settled = self._engine.settled
        awaited = None
        if settled:
            for operation in settled:
                if operation.waiters is not None:
                    if awaited is None:
                        awaited = []
                    awaited.append(operation)
            self._engine.settled = []
        self._mutex.release()
        if awaited is not None:
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
            elif isinstance(operation.waiters, list):
                operation.waiters.append(waiter)
            else:
                operation.waiters = [operation.waiters, waiter]
            return True
        finally:
            self._mutex.release()

    def _remove_waiter(self, operation: Operation, waiter: Waiter) -> None:
        self._mutex.acquire()
        try:
            # Once there is an outcome the list belongs to the thread that wakes; taking from it could skip a waiter.
            if operation.outcome is None:
                if isinstance(operation.waiters, list):
                    operation.waiters = [other for other in operation.waiters if other != waiter] or None
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
