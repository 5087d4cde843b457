"""Recorded waits and events in, outcomes out: the ledger's engine, driven through recorded time."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger.check import content, is_usable_event, is_usable_time
from dwell.ledger.engine import TOLERATED, Engine
from dwell.ledger.reason import MAX_MS
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.value import Event, Outcome, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = TypeVar("Row", Wait, Event)


def replay(
    waits: Iterable[Wait],
    events: Iterable[Event],
    *,
    as_of_ms: int | None = None,
    in_order: bool = False,
    retention_ms: int | None = None,
) -> Replay:
    """The outcome of every wait, one by one as recorded time decides them.

    Rows may come in any order; they are then all read and sorted first. With `in_order=True` they must come sorted by
    time, are read only as far as needed, and the first row out of order raises InvalidArgument. Rows without a usable
    time may stand anywhere.

    Kept in memory are the waits that are open, the level of every key, and every op_id (for the rule on repeats). With
    `retention_ms` a key nobody waits for is forgotten so long after its last event, and an op_id so long after its
    outcome: memory is then bounded by what happens within that time, and a later repeat is a new operation.

    `as_of_ms`: only what is known at that moment counts, and what is undecided then is pending. Without it time runs on
    to the end and nothing is.
    """
    return Replay(waits, events, as_of_ms=as_of_ms, in_order=in_order, retention_ms=retention_ms)


class Replay(Iterator[Outcome]):
    """A running replay: iterate for the outcomes; `statistics()` counts what was read and decided so far."""

    def __init__(
        self,
        waits: Iterable[Wait],
        events: Iterable[Event],
        *,
        as_of_ms: int | None,
        in_order: bool,
        retention_ms: int | None,
    ) -> None:
        self._engine = Engine(retention_ms)
        self._end_ms = MAX_MS if as_of_ms is None else min(as_of_ms, MAX_MS)
        self._waits = _instants(self._timed_waits(waits), "submitted_at_ms", in_order)
        self._events = _instants(self._timed_events(events), "at_ms", in_order)
        self._deadlines: list[int] = []  # a heap
        self._outcomes = self._run()

    def __iter__(self) -> Iterator[Outcome]:
        return self._outcomes

    def __next__(self) -> Outcome:
        return next(self._outcomes)

    def statistics(self) -> LedgerStatistics:
        """The counts so far; after the last outcome, those of the whole replay."""
        return LedgerStatistics.of(self._engine)

    def _run(self) -> Iterator[Outcome]:
        engine = self._engine
        never = MAX_MS + 1
        wait_ms, waits = next(self._waits, (never, []))
        event_ms, events = next(self._events, (never, []))
        while (now_ms := min(wait_ms, event_ms)) <= self._end_ms:
            self._expire_until(now_ms - 1)
            engine.at(now_ms)
            if wait_ms == now_ms:
                for wait in _first_first(waits):
                    engine.open(wait)
                wait_ms, waits = next(self._waits, (never, []))
            if event_ms == now_ms:
                for event in events:
                    engine.record(event.key or "", event.level)
                event_ms, events = next(self._events, (never, []))
            engine.settle()
            if engine.settled:
                yield from self._decided()
        self._expire_until(self._end_ms)
        engine.suspend()
        yield from self._decided()
        while wait_ms <= MAX_MS:
            for wait in _first_first(waits):
                engine.open_later(wait)
            yield from self._decided()
            wait_ms, waits = next(self._waits, (never, []))

    def _expire_until(self, last_ms: int) -> None:
        """Expire every deadline up to and with this one, in their order."""
        engine = self._engine
        deadlines = self._deadlines
        for bucket in engine.armed:
            heappush(deadlines, bucket.deadline_ms)
        engine.armed.clear()
        while deadlines and deadlines[0] <= last_ms:
            deadline_ms = heappop(deadlines)
            engine.at(deadline_ms)
            engine.expire(deadline_ms)
        # Deadlines nobody waits for any more would otherwise stay until their time.
        engine.disarmed.clear()
        if len(deadlines) > 2 * len(engine.buckets) + TOLERATED:
            deadlines[:] = engine.buckets
            heapify(deadlines)

    def _decided(self) -> Iterator[Outcome]:
        settled, self._engine.settled = self._engine.settled, []
        for op in settled:
            if op.outcome is not None:
                yield op.outcome

    def _timed_waits(self, waits: Iterable[Wait]) -> Iterator[Wait]:
        for wait in waits:
            if not isinstance(wait, Wait):
                raise InvalidType(f"waits must hold Wait, not {wait!r}")
            if is_usable_time(wait.submitted_at_ms):
                yield wait
            else:
                self._engine.admit(wait)

    def _timed_events(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if not isinstance(event, Event):
                raise InvalidType(f"events must hold Event, not {event!r}")
            if is_usable_event(event):
                yield event
            else:
                self._engine.set_aside += 1


def _instants(rows: Iterator[Row], field: str, in_order: bool) -> Iterator[tuple[int, list[Row]]]:
    """Rows by instant, the earliest first."""
    time_of = attrgetter(field)
    ordered = rows if in_order else iter(sorted(rows, key=time_of))
    instant: list[Row] = []
    instant_ms = 0
    for row in ordered:
        row_ms = time_of(row)
        if row_ms == instant_ms and instant:
            instant.append(row)
            continue
        if instant:
            if row_ms < instant_ms:
                raise InvalidArgument(f"{field} {row_ms} comes after {instant_ms}, but in_order was promised: {row}")
            yield instant_ms, instant
        instant_ms, instant = row_ms, [row]
    if instant:
        yield instant_ms, instant


def _first_first(waits: list[Wait]) -> list[Wait]:
    """Rows of one instant so that of those with the same op_id the contract's first comes first."""
    if len(waits) > 1 and len({wait.op_id for wait in waits}) < len(waits):
        return sorted(waits, key=content)
    return waits
