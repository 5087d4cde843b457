"""Recorded waits and events in, outcomes out: the ledger's engine, driven through recorded time."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger import item as rows
from dwell.ledger.check import is_usable_event, is_usable_time, order
from dwell.ledger.engine import Engine
from dwell.ledger.operation import Operation
from dwell.ledger.reason import MAX_MS, MIN_MS
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.value import Event, Outcome, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        end_ms: Any = self._end_ms
        op: Operation
        outcome: Any  # never None: these are settled
        if not self._in_order:
            waits = iter(sorted(waits, key=itemgetter(SUBMITTED_AT)))
            events = iter(sorted(events, key=itemgetter(AT)))
        wait: Any = next(waits, None)
        wait_ms: Any = NEVER if wait is None else rows.item(wait, SUBMITTED_AT)
        event: Any = next(events, None)
        event_ms: Any = NEVER if event is None else rows.item(event, AT)
        while (now_ms := wait_ms if wait_ms < event_ms else event_ms) <= end_ms:
            engine.at(now_ms)
            if wait_ms == now_ms:
                first = wait
                wait = next(waits, None)
                wait_ms = NEVER if wait is None else rows.item(wait, SUBMITTED_AT)
                if wait_ms != now_ms:
                    engine.open(first)
                else:
                    batch = [first]
                    while wait_ms == now_ms:
                        batch.append(wait)
                        wait = next(waits, None)
                        wait_ms = NEVER if wait is None else rows.item(wait, SUBMITTED_AT)
                    for row in _first_first(batch):
                        engine.open(row)
            while event_ms == now_ms:
                engine.record(rows.item(event, KEY), rows.item(event, LEVEL))
                event = next(events, None)
                event_ms = NEVER if event is None else rows.item(event, AT)
            engine.settle()
            if engine.settled:
                settled = engine.settled
                engine.settled = []
                for op in settled:
                    outcome = op.outcome
                    yield outcome
        engine.expire(end_ms)
        engine.suspend()
        for row in _first_first([] if wait is None else [wait, *waits]):
            engine.open_later(row)
        for op in engine.settled:
            outcome = op.outcome
            yield outcome

    def _timed_waits(self, waits: Iterable[Wait]) -> Iterator[Wait]:
        engine: Engine = self._engine
        last_ms: Any = MIN_MS
        for wait in waits:
            if not isinstance(wait, Wait):
                raise InvalidType(f"waits must hold Wait, not {wait!r}")
            if is_usable_time(rows.item(wait, SUBMITTED_AT)):
                if self._in_order:
                    row_ms = rows.item(wait, SUBMITTED_AT)
                    if row_ms < last_ms:
                        raise _out_of_order(wait, last_ms)
                    last_ms = row_ms
                yield wait
            else:
                engine.open(wait)

    def _timed_events(self, events: Iterable[Event]) -> Iterator[Event]:
        engine: Engine = self._engine
        last_ms: Any = MIN_MS
        for event in events:
            if not isinstance(event, Event):
                raise InvalidType(f"events must hold Event, not {event!r}")
            if is_usable_event(event):
                if self._in_order:
                    row_ms = rows.item(event, AT)
                    if row_ms < last_ms:
                        raise _out_of_order(event, last_ms)
                    last_ms = row_ms
                yield event
            else:
                engine.set_aside += 1


def _out_of_order(row: object, last_ms: object) -> InvalidArgument:
    return InvalidArgument(f"in_order was promised, but after {last_ms} ms comes {row!r}")


def _first_first(batch: list[Wait]) -> list[Wait]:
    """Rows as they are, unless some share an op_id: then the contract's first comes first."""
    if len(batch) > 1 and len({wait.op_id for wait in batch}) < len(batch):
        return sorted(batch, key=order)
    return batch
