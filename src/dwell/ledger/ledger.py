"""The live ledger: the engine under one lock, a clock for its time, a timer for its deadlines."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, Self

from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, ErrorHandler, Full, InvalidArgument, InvalidType, log_error
from dwell.ledger.engine import Engine
from dwell.ledger.explanation import Explanation, explain
from dwell.ledger.operation import Operation
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.ticket import Ticket
from dwell.ledger.wake import Waking
from dwell.timer import InlineExecutor, SystemTimer, TimerTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dwell.ledger.operation import Bucket
    from dwell.ledger.value import Need
    from dwell.ledger.wake import Waiter

# How long the reaper sleeps at most before it looks whether it shall end.
POLL_MS = 200

# An hour: a level is small, and one that was forgotten lets a wait for it expire.
KEY_RETENTION_MS = 3_600_000

# A minute: at 10,000 waits a second that is some 250 MB.
OP_RETENTION_MS = 60_000

MAX_OPEN = 1_000_000


class Alarm(TimerTask):
    """Expires one deadline."""

    __slots__ = ("_deadline_ms", "_ledger")

    def __init__(self, ledger: Ledger, deadline_ms: int, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self._ledger = ledger
        self._deadline_ms = deadline_ms

    def run(self) -> None:
        self._ledger._expire(self._deadline_ms)


class Ledger:
    """Open waits and the events they wait for. Every method may be called from any thread.

    `max_open`: more open waits than this are refused with `Full`. `key_retention_ms`: how long the level of a key nobody
    waits for counts after its last event; its memory is given back within twice that time. `op_retention_ms`: how
    long an op_id is known after its outcome. None: for ever. `on_error` gets what callbacks raise.

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
        self._max_open = max_open
        self._engine = Engine(key_retention_ms, op_retention_ms)
        self._lock = threading.Lock()
        self._waking = Waking(on_error)
        self._timer = SystemTimer(name, clock=self._clock, executor=InlineExecutor(), on_error=on_error)
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
        with self._lock:
            self._enter()
            if engine.pending >= self._max_open:
                raise Full(f"{self.name}: {engine.pending} waits are open, max_open is {self._max_open}")
            operation = engine.open((op_id, rows, delay_ms, engine.now_ms, quorum, volume))
            engine.settle()
            settled, armed = self._leave()
        self._follow_up(settled, armed)
        assert operation is not None
        return Ticket(self, operation)

    def explain(self, op_id: str) -> Explanation | None:
        """What the operation waits for and what is met, since when; None if the ledger does not know the op_id."""
        with self._lock:
            operation = self._engine.operations.get(op_id)
            return explain(operation) if isinstance(operation, Operation) else None

    # -- events

    def record(self, key: str | None, level: int | None = None) -> int:
        """Something happened to `key` now. Returns how many waits that completed. Without a key: counted, set aside."""
        return self.record_many(((key, level),))

    def record_many(self, events: Iterable[tuple[str | None, int | None]]) -> int:
        """All these (key, level) happened at once: one instant, one time under the lock."""
        rows = [(key, level) for key, level in events]
        for key, level in rows:
            if key is not None and not isinstance(key, str):
                raise InvalidType(f"key must be a string, not {key!r}")
            if level is not None and not isinstance(level, int):
                raise InvalidType(f"level must be an integer, not {level!r}")
        engine = self._engine
        with self._lock:
            self._enter()
            before = engine.completed
            for key, level in rows:
                if key is None:
                    engine.set_aside += 1
                else:
                    engine.record(key, level)
            engine.settle()
            completed = engine.completed - before
            settled, armed = self._leave()
        self._follow_up(settled, armed)
        return completed

    # -- time

    def advance(self) -> int:
        """End the current millisecond: expire all that is due up to and with it. Returns how many expired.

        For ledgers without a reaper.
        """
        before = self._engine.expired
        self._timer.advance_clock(0)
        self._expire(self._clock.now_ms())
        return self._engine.expired - before

    def _expire(self, deadline_ms: int) -> None:
        with self._lock:
            self._engine.at(self._clock.now_ms())
            self._engine.expire(deadline_ms)
            settled, armed = self._leave()
        self._follow_up(settled, armed)

    def _reap(self) -> None:
        while not self._closed:
            self._timer.advance_clock(POLL_MS)

    # -- life

    def statistics(self) -> LedgerStatistics:
        """A frozen snapshot; the identity holds in it."""
        with self._lock:
            return LedgerStatistics.of(self._engine)

    def close(self, pending: Literal["cancel", "expire", "leave"] = "cancel") -> None:
        """Take nothing more in, and end the reaper. What still waits is cancelled; or expired, as if time ran on and
        nothing happened; or left as it is, to be cancelled by its ticket. A second call does nothing.
        """
        if pending not in ("cancel", "expire", "leave"):
            raise InvalidArgument(f"pending must be 'cancel', 'expire' or 'leave', not {pending!r}")
        engine = self._engine
        with self._lock:
            if self._closed:
                return
            self._closed = True
            engine.at(self._clock.now_ms())
            if pending != "leave":
                for deadline_ms, bucket in sorted(engine.buckets.items()):
                    if pending == "expire":
                        engine.expire(deadline_ms)
                    else:
                        while bucket.head is not None:
                            engine.cancel(bucket.head)
            settled, _ = self._leave()
        self._timer.close()
        if self._reaper is not None and self._reaper is not threading.current_thread():
            self._reaper.join()
        self._follow_up(settled, [])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger {self.name!r} pending={self._engine.pending}>"

    # -- the lock: what happens under it, and what only after it

    def _enter(self) -> None:
        if self._closed:
            raise Closed(f"{self.name} is closed")
        self._engine.at(self._clock.now_ms())

    def _leave(self) -> tuple[Sequence[Operation], Sequence[Bucket]]:
        """What was settled and which deadlines are new, to be followed up once the lock is released."""
        engine = self._engine
        settled: Sequence[Operation] = ()
        armed: Sequence[Bucket] = ()
        if engine.settled:
            settled, engine.settled = engine.settled, []
        if engine.armed:
            armed, engine.armed = engine.armed, []
        if engine.disarmed:
            for bucket in engine.disarmed:
                if isinstance(bucket.alarm, Alarm):
                    bucket.alarm.cancel()
            engine.disarmed.clear()
        return settled, armed

    def _follow_up(self, settled: Sequence[Operation], armed: Sequence[Bucket]) -> None:
        for bucket in armed:
            # One millisecond after the deadline, whose events still count.
            delay_ms = bucket.deadline_ms + 1 - self._clock.now_ms()
            bucket.alarm = alarm = Alarm(self, bucket.deadline_ms, delay_ms)
            try:
                self._timer.add(alarm)
            except Closed:
                # close() came between: it has decided what becomes of this deadline.
                break
        if settled:
            self._waking.tell(settled)

    # -- for tickets

    def _add_waiter(self, operation: Operation, waiter: Waiter) -> bool:
        """False if there is an outcome already: nobody will be woken."""
        with self._lock:
            if operation.outcome is not None:
                return False
            if operation.waiters is None:
                operation.waiters = []
            operation.waiters.append(waiter)
            return True

    def _remove_waiter(self, operation: Operation, waiter: Waiter) -> None:
        with self._lock:
            # Once there is an outcome the list belongs to the thread that wakes; taking from it could skip a waiter.
            if operation.outcome is None and operation.waiters is not None:
                operation.waiters.remove(waiter)

    def _cancel(self, operation: Operation) -> bool:
        with self._lock:
            if operation.outcome is not None:
                return False
            self._engine.at(self._clock.now_ms())
            before = self._engine.cancelled
            self._engine.cancel(operation)
            is_cancelled = self._engine.cancelled > before
            settled, armed = self._leave()
        self._follow_up(settled, armed)
        return is_cancelled
