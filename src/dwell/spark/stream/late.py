"""Events that came too late: whose outcome would they have changed?

They count for nothing, but with `late_events` each is shown once by itself, and once more with every operation that
would have had another outcome. For that, settled operations and their needs stay in the state for as long as they are
remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.contract.columns import PENDING
from dwell.spark.stream.clock import START
from dwell.spark.stream.decide import Operations, decide, rows_of
from dwell.spark.stream.meet import Keys, met_times, unrepeated
from dwell.spark.stream.table import KNOWN, MET, Ints, among, empty, flags, ints, joined, present, where
from dwell.spark.stream.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from dwell.spark.stream.decide import Decisions

# A late event, and the need it would have met (or met earlier) at `met`, if any.
LATE = pa.schema(
    [
        ("key", pa.string()),
        ("at", pa.int64()),
        ("level", pa.int64()),
        ("hash", pa.int64()),
        ("tag", pa.int64()),
        ("no", pa.int32()),
        ("met", pa.int64()),
    ]
)

# A late event, the operation that would have had another outcome, if any, and what was said of it.
SHOWN = pa.schema(
    [
        ("key", pa.string()),
        ("at", pa.int64()),
        ("level", pa.int64()),
        ("op_id", pa.string()),
        ("outcome", pa.string()),
        ("finished", pa.int64()),
        ("waited", pa.int64()),
        ("completed_by", pa.string()),
        ("was", pa.string()),
        ("was_finished", pa.int64()),
    ]
)


def concerned(known: Keys, needs: pa.RecordBatch, events: pa.RecordBatch, late: pa.RecordBatch) -> pa.RecordBatch:
    """The late events as LATE rows: each by itself, and with every need it would have met.

    Which of these needs matter, their operations know, each in a shard of its own: none could say that none does.
    """
    keys = late.column("key")
    needs = unrepeated(joined([known.needs, needs], known.needs.schema), "hash", "tag", "no")
    needs = where(needs, among(needs.column("key"), keys))
    events = where(events, among(events.column("key"), keys))
    line = Timeline(where(known.keys, among(known.keys.column("key"), keys)), events)
    event, need = _would_meet(needs, met_times(line, needs), late)
    heard, asked = late.select(["key", "at", "level"]), needs.take(pa.array(need))
    met = np.maximum(ints(late, "at")[event], ints(asked, "submitted"))
    paired = [*heard.take(pa.array(event)).columns, *(asked.column(name) for name in ("hash", "tag", "no"))]
    alone = [*heard.columns, *(pa.nulls(late.num_rows, field.type) for field in list(LATE)[3:])]
    return joined(
        [
            pa.RecordBatch.from_arrays(alone, schema=LATE),
            pa.RecordBatch.from_arrays([*paired, pa.array(met)], schema=LATE),
        ],
        LATE,
    )


def _would_meet(needs: pa.RecordBatch, met: Ints, late: pa.RecordBatch) -> tuple[Ints, Ints]:
    """Pairs of a late event and a need that it would have met, or met earlier than at `met`, as row numbers of both.

    A signal is met by an event from its submission on, a level by an event at that level or above. To a volume only
    what is above the need's level contributes, and it may always have more. In each case that is a range of the key's
    needs, sorted by submission or by level; among these `reaching` finds those that are not over or met already.
    """
    submitted, level, volume = ints(needs, "submitted"), ints(needs, "level"), flags(needs, "volume")
    met = np.where(volume, NEVER, met)
    # The last moment at which an event changes something. What was met at submission cannot be met earlier.
    last = np.where(submitted < met, np.minimum(ints(needs, "deadline"), met - 1), START)
    names = late.column("key").dictionary_encode()
    code = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    found = pc.index_in(needs.column("key"), value_set=names.dictionary)
    code_of_need = found.to_numpy(zero_copy_only=False).astype(np.int64)
    at, leveled = ints(late, "at"), present(late, "level")
    signal, pairs = ~present(needs, "level"), list[tuple[Ints, Ints]]()
    for which, of_need, of_event, heard, at_least in (
        (signal, submitted, at, np.ones(late.num_rows, np.bool_), True),
        (~signal & ~volume, level, ints(late, "level"), leveled, True),
        (volume, level, ints(late, "level"), leveled, False),
    ):
        rows, asked = np.flatnonzero(which), np.flatnonzero(heard)
        rows = rows[np.lexsort((of_need[rows], code_of_need[rows]))]
        values = np.unique(of_need[rows])
        width = len(values) + 1
        place = code_of_need[rows] * width + np.searchsorted(values, of_need[rows])
        start = np.searchsorted(place, code[asked] * width)
        # Up to the event's own time or level; of a volume, below it.
        rank = np.searchsorted(values, of_event[asked], "right" if at_least else "left")
        stop = np.searchsorted(place, code[asked] * width + rank)
        event, need = reaching(last[rows], at[asked], start, stop)
        pairs.append((asked[event], rows[need]))
    return np.concatenate([event for event, _ in pairs]), np.concatenate([need for _, need in pairs])


def reaching(ends: Ints, at: Ints, start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Pairs of a question and a row between its `start` and `stop` whose end is at `at` or later.

    A binary tree over the rows has the greatest end below each node. All questions go down from the root at once, each
    only to where it finds something: O((questions + pairs) * log(rows)), however long the ranges are.
    """
    levels = [ends]
    while len(levels[-1]) > 1:
        pairs = np.append(levels[-1], START - 1)[: len(levels[-1]) + len(levels[-1]) % 2]
        levels.append(np.maximum(pairs[::2], pairs[1::2]))
    question = np.flatnonzero(start < stop)
    node = np.zeros(len(question), np.int64)
    for height in range(len(levels) - 1, -1, -1):
        if height < len(levels) - 1:
            question, node = np.repeat(question, 2), np.repeat(2 * node, 2)
            node[1::2] += 1
        first = node << height
        found = (first < stop[question]) & (first + (1 << height) > start[question]) & (node < len(levels[height]))
        found[found] = levels[height][node[found]] >= at[question[found]]
        question, node = question[found], node[found]
    return question, node


def changed(all_: Operations, late: pa.RecordBatch, until: int) -> pa.RecordBatch:
    """The late events as SHOWN rows: by themselves, and with each outcome they would have changed."""
    paired = present(late, "hash")
    alone, late = where(late, ~paired), where(late, paired)
    asked = Operations(*(where(part, among(part.column("hash"), late.column("hash"))) for part in all_))
    owned = decide(asked, until)
    owned = owned.only(owned.first)
    row = rows_of(owned.ops, late)
    late, row = where(late, row >= 0), row[row >= 0]
    was, would = owned.take(row), decide(_each(owned.ops, asked.met, late, row), until)
    other = (was.instant != would.instant) | (was.done != would.done) | (was.by != would.by)
    return joined([_filled(alone), _shown(where(late, other), was.only(other), would.only(other))], SHOWN)


def _each(ops: pa.RecordBatch, met: pa.RecordBatch, late: pa.RecordBatch, row: Ints) -> Operations:
    """For each late event the operation at `row`, with what it had and the event, all under a hash of their own."""
    owner = rows_of(ops, met)
    order = np.argsort(owner, kind="stable")
    start, end = (np.searchsorted(owner[order], row, side) for side in ("left", "right"))
    count = end - start
    place = np.repeat(start - np.cumsum(count) + count, count) + np.arange(count.sum())
    number = np.arange(late.num_rows)
    had = _under(met.take(pa.array(order[place])), np.repeat(number, count))
    columns = [*(late.column(name) for name in ("hash", "tag", "no", "met", "level", "at"))]
    heard = _under(pa.RecordBatch.from_arrays(columns, schema=MET), number)
    return Operations(_under(ops.take(pa.array(row)), number), joined([had, heard], MET), empty(KNOWN))


def _under(rows: pa.RecordBatch, hashes: Ints) -> pa.RecordBatch:
    return rows.set_column(rows.schema.get_field_index("hash"), "hash", pa.array(hashes, pa.int64()))


def _shown(late: pa.RecordBatch, was: Decisions, would: Decisions) -> pa.RecordBatch:
    return _filled(
        late,
        op_id=would.ops.column("op_id"),
        outcome=_outcome(would),
        finished=would.finished(),
        waited=pc.subtract(would.finished(), would.ops.column("submitted")),
        completed_by=would.completed_by(),
        was=_outcome(was),
        was_finished=was.finished(),
    )


def _outcome(at: Decisions) -> pa.Array:
    return pc.if_else(pa.array(at.instant == NEVER), PENDING, at.outcome())


def _filled(late: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    """SHOWN rows of these columns, the others null."""
    columns |= {name: late.column(name) for name in ("key", "at", "level")}
    nothing = (pa.nulls(late.num_rows, field.type) for field in SHOWN)
    arrays = [columns.get(field.name, null) for field, null in zip(SHOWN, nothing, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SHOWN)
