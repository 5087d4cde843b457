"""Recorded waits and events in, outcomes out: the ledger's engine, driven through recorded time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

from dwell.contract.order import order
from dwell.contract.time_range import AFTER_ALL, BEFORE_ALL, MAX_MS, is_usable_time
from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger.admission import is_usable_event
from dwell.ledger.engine import Engine
from dwell.ledger.row import Event, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dwell.ledger.row import Outcome
    from dwell.ledger.statistics import LedgerStatistics

Row = TypeVar("Row")


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
    return Replay(
        waits,
        events,
        as_of_ms=as_of_ms,
        in_order=in_order,
        key_retention_ms=key_retention_ms,
        op_retention_ms=op_retention_ms,
    )


class Replay:
    """A running replay: iterate for the outcomes; `statistics()` counts what was read and decided so far."""

    def __init__(
        self,
        waits: Iterable[Wait],
        events: Iterable[Event],
        *,
        as_of_ms: int | None = None,
        in_order: bool = False,
        key_retention_ms: int | None = None,
        op_retention_ms: int | None = None,
    ) -> None:
        self._engine = Engine(key_retention_ms, op_retention_ms)
        self._end_ms = MAX_MS if as_of_ms is None else max(BEFORE_ALL, min(as_of_ms, MAX_MS))
        self._in_order = in_order
        self._outcomes = self._run(iter(waits), iter(events))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome:
        return next(self._outcomes)

    def statistics(self) -> LedgerStatistics:
        """The counts so far; after the last outcome, those of the whole replay."""
        return self._engine.statistics()

    def _run(self, waits: Iterator[Wait], events: Iterator[Event]) -> Iterator[Outcome]:
        engine = self._engine
        usable_waits, usable_events = self._usable_waits(waits), self._usable_events(events)
        if not self._in_order:
            usable_waits = iter(sorted(usable_waits, key=_submitted_at_ms))
            usable_events = iter(sorted(usable_events, key=_at_ms))
        next_waits = _Instants(usable_waits, _submitted_at_ms)
        next_events = _Instants(usable_events, _at_ms)
        while (now_ms := min(next_waits.now_ms, next_events.now_ms)) <= self._end_ms:
            engine.at(now_ms)
            for wait in _first_first(next_waits.take(now_ms)):
                engine.open(wait)
            for event in next_events.take(now_ms):
                engine.record(str(event.key), event.level)
            engine.settle()
            yield from self._take_settled()
        engine.expire(self._end_ms)
        engine.suspend()
        for wait in _first_first(next_waits.take_rest()):
            engine.open_later(wait)
        yield from self._take_settled()

    def _take_settled(self) -> Iterator[Outcome]:
        settled, self._engine.settled = self._engine.settled, []
        return (operation.row() for operation in settled)

    def _usable_waits(self, waits: Iterator[Wait]) -> Iterator[Wait]:
        """Those with a usable time. The others are rejected at once."""
        for wait in waits:
            if not isinstance(wait, Wait):
                raise InvalidType(f"waits must hold Wait, not {wait!r}")
            if is_usable_time(wait.submitted_at_ms):
                yield wait
            else:
                self._engine.open(wait)

    def _usable_events(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            if not isinstance(event, Event):
                raise InvalidType(f"events must hold Event, not {event!r}")
            if is_usable_event(event):
                yield event
            else:
                self._engine.set_aside += 1


class _Instants(Generic[Row]):
    """Rows sorted by time, read instant by instant."""

    def __init__(self, rows: Iterator[Row], time_of: Callable[[Row], int]) -> None:
        self._rows = rows
        self._time_of = time_of
        self._next: Row | None = None
        self.now_ms = BEFORE_ALL  # of the next row; AFTER_ALL when there is none
        self._read()

    def take(self, now_ms: int) -> list[Row]:
        """The rows of this instant; none if the next row is later."""
        taken = []
        while self._next is not None and self.now_ms == now_ms:
            taken.append(self._next)
            self._read()
        return taken

    def take_rest(self) -> list[Row]:
        return [] if self._next is None else [self._next, *self._rows]

    def _read(self) -> None:
        self._next = next(self._rows, None)
        next_ms = AFTER_ALL if self._next is None else self._time_of(self._next)
        if next_ms < self.now_ms:
            raise InvalidArgument(f"in_order was promised, but after {self.now_ms} ms comes {self._next!r}")
        self.now_ms = next_ms


def _submitted_at_ms(wait: Wait) -> int:
    assert wait.submitted_at_ms is not None
    return wait.submitted_at_ms


def _at_ms(event: Event) -> int:
    assert event.at_ms is not None
    return event.at_ms


def _first_first(waits: list[Wait]) -> list[Wait]:
    """The waits as they are, unless some share an op_id: then the contract's first comes first."""
    if len({wait.op_id for wait in waits}) == len(waits):
        return waits
    return sorted(waits, key=order)
