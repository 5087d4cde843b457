"""Stage 1, by key: which needs were met between two watermarks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dwell.spark.stream.clock import START
from dwell.spark.stream.table import KEY, MET, NEED, Ints, among, empty, flags, ints, joined, present, where
from dwell.spark.stream.timeline import NEVER, Timeline


class Keys(NamedTuple):
    """What is known of some keys up to a moment: their levels, and the needs not met so far."""

    keys: pa.RecordBatch
    needs: pa.RecordBatch


def meet(known: Keys, needs: pa.RecordBatch, events: pa.RecordBatch, since: int) -> pa.RecordBatch:
    """The needs met since then, as MET rows.

    `needs` and `events` are all up to now that `known` does not have, in any order, repeats included. What was
    met before `since` is not said again. A repeated need is said again.
    """
    needs = joined([known.needs, needs], NEED)
    # Only a need that is new, or that has new events, can be met now.
    stirred = events.column("key").filter(pa.array(ints(events, "at") >= since))
    asked = (ints(needs, "submitted") >= since) | among(needs.column("key"), stirred)
    needs = where(needs, asked & (ints(needs, "deadline") >= since) & ~present(needs, "met"))
    if not needs.num_rows:
        return empty(MET)
    wanted = needs.column("key")
    line = Timeline(
        where(known.keys, among(known.keys.column("key"), wanted)),
        where(events, among(events.column("key"), wanted)),
    )
    volume = flags(needs, "volume")
    plain = where(needs, ~volume)
    return joined([_met(plain, first_met(line, plain), since), _rises(line, where(needs, volume), since)], MET)


def fold(
    known: Keys,
    needs: pa.RecordBatch,
    events: pa.RecordBatch,
    until: int,
    *,
    linger_ms: int = 0,
    forget_before: int | None = None,
) -> Keys:
    """What is known up to `until`, given all of before it that `known` does not have.

    Needs stay until they are met or their deadline has passed, and `linger_ms` longer.
    """
    needs = joined([known.needs, needs], NEED)
    needs = where(needs, ints(needs, "deadline") >= until - linger_ms)
    needs = unrepeated(needs, "hash", "tag", "no")
    line = Timeline(known.keys, events)
    # A need of a volume is never done: each further rise counts.
    met = np.where(flags(needs, "volume"), NEVER, met_times(line, needs))
    needs = needs.set_column(needs.schema.get_field_index("met"), "met", pa.array(met, mask=met == NEVER))
    return Keys(_levels(known, events, line, forget_before), where(needs, met >= until - linger_ms))


def met_times(line: Timeline, needs: pa.RecordBatch) -> Ints:
    """Like `first_met`, but trusts what is on record."""
    return np.where(present(needs, "met"), ints(needs, "met"), first_met(line, needs))


def first_met(line: Timeline, needs: pa.RecordBatch) -> Ints:
    """When each need is first met, not before its submission, or NEVER."""
    code, submitted = line.codes(needs.column("key")), ints(needs, "submitted")
    level = np.maximum(line.reached(code, ints(needs, "level")), submitted)
    met = np.where(present(needs, "level"), level, line.heard(code, submitted))
    return np.where(met <= ints(needs, "deadline"), met, NEVER)


def repeated(values: Ints) -> Ints:
    """Where a value stands that occurs more than once. Costs one sort, without an order to go with it, if there is
    none."""
    ordered = np.sort(values)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(values, twice)) if len(twice) else np.zeros(0, np.int64)


def distinct(*columns: Ints) -> Ints:
    """The first row of each combination of values, in order."""
    doubtful = repeated(columns[0])
    rest = [column[doubtful] for column in columns]
    order = np.lexsort(rest[::-1])
    again = np.ones(len(order), np.bool_)
    again[:1] = False
    for column in rest:
        again[1:] &= column[order][1:] == column[order][:-1]
    once = np.ones(len(columns[0]), np.bool_)
    once[doubtful[order[again]]] = False
    return np.flatnonzero(once)


def unrepeated(batch: pa.RecordBatch, *names: str) -> pa.RecordBatch:
    """The first row of each combination of values in these columns of integers."""
    rows = distinct(*(ints(batch, name) for name in names))
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))


def _met(needs: pa.RecordBatch, met: Ints, since: int) -> pa.RecordBatch:
    now = (met != NEVER) & (met >= since)
    rows = where(needs, now)
    nothing = pa.nulls(rows.num_rows, pa.int64())
    columns = [*(rows.column(name) for name in ("hash", "tag", "no")), pa.array(met[now]), nothing, nothing]
    return pa.RecordBatch.from_arrays(columns, schema=MET)


def _rises(line: Timeline, needs: pa.RecordBatch, since: int) -> pa.RecordBatch:
    """For needs of a volume: the level at submission, then every rise up to the deadline, where above the need's."""
    if not needs.num_rows or not len(line.rises):
        return empty(MET)
    code, level = line.codes(needs.column("key")), ints(needs, "level")
    submitted, deadline = ints(needs, "submitted"), ints(needs, "deadline")
    # To the last rise at or before the deadline; from the last at or before the submission, or the first not said yet.
    start, end = line.risen(code, np.maximum(submitted, since - 1)) - (submitted >= since), line.risen(code, deadline)
    count = np.where(code >= 0, end - start, 0)
    need = np.repeat(np.arange(len(code)), count)
    place = np.repeat(start - np.cumsum(count) + count, count) + np.arange(count.sum())
    row = line.rises[np.maximum(place, 0)]
    rose, risen_to = line.at[row], line.level_at(row)
    at = np.maximum(rose, submitted[need])
    said = (place >= 0) & (line.code[row] == code[need]) & (risen_to > level[need]) & (at >= since)
    rows = needs.take(pa.array(need[said]))
    columns = [rows.column(name) for name in ("hash", "tag", "no")]
    columns += [pa.array(values[said]) for values in (at, risen_to, rose)]
    return pa.RecordBatch.from_arrays(columns, schema=MET)


def _levels(known: Keys, events: pa.RecordBatch, line: Timeline, forget_before: int | None) -> pa.RecordBatch:
    """The level of every key that has one, and when it last rose."""
    code = line.code[line.rises]
    last = line.rises[np.append(code[1:] != code[:-1], True)[: len(code)]]
    names = line.names(line.code[last])
    seen, cell = np.full(line.size, START), np.zeros(line.size, np.int64)
    for rows, time in ((known.keys, "seen"), (events, "at")):
        code = line.codes(rows.column("key"))
        np.maximum.at(seen, code, ints(rows, time))
        cell[code] = ints(rows, "cell")
    seen, cell = seen[line.code[last]], cell[line.code[last]]
    figures = (line.level_at(last), line.at[last], seen)
    keys = pa.RecordBatch.from_arrays([names, pa.array(cell, pa.int32()), *map(pa.array, figures)], schema=KEY)
    return keys if forget_before is None else where(keys, seen >= forget_before)
