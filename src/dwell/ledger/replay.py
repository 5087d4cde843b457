"""Recorded waits and events in, outcomes out: the ledger's engine, driven through recorded time."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger.check import is_usable_event, is_usable_time, order
from dwell.ledger.engine import Engine
from dwell.ledger.operation import Operation
from dwell.ledger.reason import MAX_MS, MIN_MS
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.value import Event, Outcome, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable

# Where the time stands in a row.
SUBMITTED_AT = Wait._fields.index("submitted_at_ms")
AT = Event._fields.index("at_ms")

Row = TypeVar("Row", Wait, Event)

NEVER = MAX_MS + 1
END: tuple[int, list[Wait]] = (NEVER, [])
LAST = ("", NEVER, None)


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


class Replay(Iterator[Outcome]):
    """A running replay: iterate for the outcomes; `statistics()` counts what was read and decided so far."""

    def __init__(
        self, engine: Engine, waits: Iterable[Wait], events: Iterable[Event], end_ms: int, in_order: bool
    ) -> None:
        self._engine = engine
        self._end_ms = end_ms
        self._in_order = in_order
        self._outcomes = self._run(self._timed_waits(waits), self._timed_events(events))

    def __iter__(self) -> Iterator[Outcome]:
        return self._outcomes

    def __next__(self) -> Outcome:
        return next(self._outcomes)

    def statistics(self) -> LedgerStatistics:
        """The counts so far; after the last outcome, those of the whole replay."""
        return LedgerStatistics.of(self._engine)

    def _run(self, waits: Iterator[Wait], events: Iterator[Event]) -> Iterator[Outcome]:
        engine: Engine = self._engine
        op: Operation
        outcome: Any  # never None: these are settled
        batches = _instants(_ascending(waits, SUBMITTED_AT, self._in_order))
        rows: Iterator[Any] = _ascending(events, AT, self._in_order)
        batch_ms, batch = next(batches, END)
        key, event_ms, level = next(rows, LAST)
        while (now_ms := batch_ms if batch_ms < event_ms else event_ms) <= self._end_ms:
            engine.at(now_ms)
            if batch_ms == now_ms:
                for wait in batch:
                    engine.open(wait)
                batch_ms, batch = next(batches, END)
            while event_ms == now_ms:
                engine.record(key, level)
                key, event_ms, level = next(rows, LAST)
            engine.settle()
            if engine.settled:
                settled = engine.settled
                engine.settled = []
                for op in settled:
                    outcome = op.outcome
                    yield outcome
        engine.expire(self._end_ms)
        engine.suspend()
        while batch:
            for wait in batch:
                engine.open_later(wait)
            _, batch = next(batches, END)
        for op in engine.settled:
            outcome = op.outcome
            yield outcome

    def _timed_waits(self, waits: Iterable[Wait]) -> Iterator[Wait]:
        for wait in waits:
            if not isinstance(wait, Wait):
                raise InvalidType(f"waits must hold Wait, not {wait!r}")
            if is_usable_time(wait.submitted_at_ms):
                yield wait
            else:
                self._engine.open(wait)

    def _timed_events(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if not isinstance(event, Event):
                raise InvalidType(f"events must hold Event, not {event!r}")
            if is_usable_event(event):
                yield event
            else:
                self._engine.set_aside += 1


def _ascending(rows: Iterator[Row], place: int, in_order: bool) -> Iterator[Row]:
    """Rows by the time that stands at this place: sorted, or checked as they come."""
    return _checked(rows, place) if in_order else iter(sorted(rows, key=itemgetter(place)))


def _checked(rows: Iterator[Row], place: int) -> Iterator[Row]:
    last_ms: Any = MIN_MS
    for row in rows:
        row_ms: Any = row[place]
        if row_ms < last_ms:
            raise InvalidArgument(f"in_order was promised, but after {last_ms} ms comes {row!r}")
        last_ms = row_ms
        yield row


def _instants(waits: Iterator[Wait]) -> Iterator[tuple[int, list[Wait]]]:
    """The rows of each instant; of those with the same op_id the contract's first comes first."""
    batch: list[Wait] = []
    batch_ms: Any = NEVER
    wait_ms: Any
    for wait in waits:
        # Unpacked, not indexed: the index of a named tuple is slow in compiled code.
        _, _, _, wait_ms, _, _ = wait
        if wait_ms != batch_ms:
            if batch:
                yield batch_ms, _first_first(batch)
            batch_ms = wait_ms
            batch = []
        batch.append(wait)
    if batch:
        yield batch_ms, _first_first(batch)


def _first_first(batch: list[Wait]) -> list[Wait]:
    if len(batch) > 1 and len({wait.op_id for wait in batch}) < len(batch):
        return sorted(batch, key=order)
    return batch
