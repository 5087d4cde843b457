# cython: annotation_typing=False, boundscheck=False, wraparound=False
"""Recorded waits and events in, outcomes out: the ledger's engine, driven through recorded time."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger import item as rows
from dwell.ledger.check import is_usable_event, is_usable_time, order
from dwell.ledger.engine import Engine
from dwell.ledger.reason import MAX_MS, MIN_MS
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.value import Event, Outcome, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dwell.ledger.operation import Operation

# Where things stand in a row.
SUBMITTED_AT = Wait._fields.index("submitted_at_ms")
AT = Event._fields.index("at_ms")
KEY = Event._fields.index("key")
LEVEL = Event._fields.index("level")

NEVER = MAX_MS + 1


def replay(
    waits: Iterable[Wait],
    events: Iterable[Event],
    *,
    as_of_ms: int | None = None,
    in_order: bool = False,
    key_retention_ms: int | None = None,
    op_retention_ms: int | None = None,
) -> Replay:
    """The outcome of every wait, one by one as recorded time decides them.

    Rows may come in any order; they are then all read and sorted first. With `in_order=True` they must come sorted by
    time, are read only as far as needed, and the first row out of order raises InvalidArgument. Rows without a usable
    time may stand anywhere.

    Kept in memory are the waits that are open, the level of every key, and every wait that was settled (for the rule on
    repeats). With `key_retention_ms` a key nobody waits for is forgotten so long after its last event, with
    `op_retention_ms` a wait so long after its outcome: memory is then bounded by what happens within these times, an
    older level does not count, and an older repeat is a new operation.

    `as_of_ms`: only what is known at that moment counts, and what is undecided then is pending. Without it time runs on
    to the end and nothing is.
    """
    engine = Engine(key_retention_ms, op_retention_ms)
    return Replay(engine, waits, events, MAX_MS if as_of_ms is None else min(as_of_ms, MAX_MS), in_order)


class Replay:
    """A running replay: iterate for the outcomes; `statistics()` counts what was read and decided so far."""

    def __init__(
        self, engine: Engine, waits: Iterable[Wait], events: Iterable[Event], end_ms: int, in_order: bool
    ) -> None:
        self._engine = engine
        self._end_ms = end_ms
        self._in_order = in_order
        self._waits: Iterator[Any] = iter(waits)
        self._events: Iterator[Any] = iter(events)
        self._is_started = self._is_checked = self._is_ended = False
        # The next rows and their times; NEVER after the last.
        self._wait: Any = None
        self._wait_ms = MIN_MS
        self._event: Any = None
        self._event_ms = MIN_MS
        # Operations whose outcomes are next, and how many of them were given.
        self._settled: list[Operation] = []
        self._given = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome:
        while self._given == len(self._settled):
            if self._is_ended:
                raise StopIteration
            # Whatever fails, here or in the caller's iterators, ends the replay.
            self._is_ended = True
            self._is_ended = self._go_on()
            self._settled, self._engine.settled = self._engine.settled, []
            self._given = 0
        op = self._settled[self._given]
        self._given += 1
        return op.row()

    def statistics(self) -> LedgerStatistics:
        """The counts so far; after the last outcome, those of the whole replay."""
        return LedgerStatistics.of(self._engine)

    # -- time

    def _go_on(self) -> bool:
        """Instant by instant until something is settled. True at the end of time."""
        engine = self._engine
        if not self._is_started:
            self._start()
        while not engine.settled:
            now_ms = self._wait_ms if self._wait_ms < self._event_ms else self._event_ms
            if now_ms > self._end_ms:
                self._stop()
                return True
            engine.at(now_ms)
            if self._wait_ms == now_ms:
                self._open_all()
            while self._event_ms == now_ms:
                event = self._event
                self._read_event()
                engine.record(rows.item(event, KEY), rows.item(event, LEVEL))
            engine.settle()
        return False

    def _open_all(self) -> None:
        """Open the waits of this instant."""
        now_ms = self._wait_ms
        first = self._wait
        self._read_wait()
        if self._wait_ms != now_ms:
            self._engine.open(first)
            return
        batch = [first]
        while self._wait_ms == now_ms:
            batch.append(self._wait)
            self._read_wait()
        for wait in _first_first(batch):
            self._engine.open(wait)

    def _stop(self) -> None:
        self._engine.expire(self._end_ms)
        self._engine.suspend()
        left = []
        while self._wait is not None:
            left.append(self._wait)
            self._read_wait()
        for wait in _first_first(left):
            self._engine.open_later(wait)

    # -- rows

    def _start(self) -> None:
        self._is_started = True
        if not self._in_order:
            self._waits, self._events = iter(self._collect(True)), iter(self._collect(False))
            self._is_checked = True
        self._read_wait()
        self._read_event()

    def _collect(self, is_wait: bool) -> list[Any]:
        """All usable rows by time."""
        place = SUBMITTED_AT if is_wait else AT
        collected = []
        is_sorted = True
        last_ms = MIN_MS
        while (row := self._next_wait() if is_wait else self._next_event()) is not None:
            row_ms = rows.item(row, place)
            if row_ms < last_ms:
                is_sorted = False
            last_ms = row_ms
            collected.append(row)
        if not is_sorted:
            collected.sort(key=itemgetter(place))
        return collected

    def _read_wait(self) -> None:
        self._wait = self._next_wait()
        row_ms = NEVER if self._wait is None else rows.item(self._wait, SUBMITTED_AT)
        if row_ms < self._wait_ms:
            raise _out_of_order(self._wait, self._wait_ms)
        self._wait_ms = row_ms

    def _read_event(self) -> None:
        self._event = self._next_event()
        row_ms = NEVER if self._event is None else rows.item(self._event, AT)
        if row_ms < self._event_ms:
            raise _out_of_order(self._event, self._event_ms)
        self._event_ms = row_ms

    def _next_wait(self) -> Any:
        """The next wait with a usable time, None after the last. One without is rejected at once."""
        for wait in self._waits:
            if self._is_checked:
                return wait
            if not isinstance(wait, Wait):
                raise InvalidType(f"waits must hold Wait, not {wait!r}")
            if is_usable_time(rows.item(wait, SUBMITTED_AT)):
                return wait
            self._engine.open(wait)
        return None

    def _next_event(self) -> Any:
        """The next event that counts, None after the last."""
        for event in self._events:
            if self._is_checked:
                return event
            if not isinstance(event, Event):
                raise InvalidType(f"events must hold Event, not {event!r}")
            if is_usable_event(event):
                return event
            self._engine.set_aside += 1
        return None


def _out_of_order(row: object, last_ms: object) -> InvalidArgument:
    return InvalidArgument(f"in_order was promised, but after {last_ms} ms comes {row!r}")


def _first_first(batch: list[Any]) -> list[Any]:
    """Rows as they are, unless some share an op_id: then the contract's first comes first."""
    op_ids = set()
    for wait in batch:
        op_ids.add(rows.item(wait, 0))
    return batch if len(op_ids) == len(batch) else sorted(batch, key=order)
