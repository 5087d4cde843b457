"""Events that came too late: whose outcome would they have changed?

They count for nothing, but with `late_events` each is shown once by itself, and once more with every operation that
would have had another outcome. For that, settled operations and their needs stay in the state for as long as they are
remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.ledger.value import PENDING
from dwell.spark.stream.decide import Operations, decide, rows_of
from dwell.spark.stream.meet import Keys, met_times, unrepeated
from dwell.spark.stream.table import KNOWN, MET, among, empty, joined, present, where
from dwell.spark.stream.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from dwell.spark.stream.decide import Decisions
    from dwell.spark.stream.table import Ints

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
    waiting: dict[str, list[dict[str, Any]]] = {}
    for need, met in zip(needs.to_pylist(), met_times(line, needs).tolist(), strict=True):
        # A volume may always have more.
        waiting.setdefault(need["key"], []).append({**need, "met": NEVER if need["volume"] else met})
    rows = []
    for event in late.to_pylist():
        rows.append(event)
        rows += [
            {
                **event,
                "hash": need["hash"],
                "tag": need["tag"],
                "no": need["no"],
                "met": max(event["at"], need["submitted"]),
            }
            for need in waiting.get(event["key"], [])
            if _would_meet(event, need)
        ]
    return pa.RecordBatch.from_pylist(rows, LATE)


def _would_meet(event: dict[str, Any], need: dict[str, Any]) -> bool:
    if event["at"] > need["deadline"] or max(event["at"], need["submitted"]) >= need["met"]:
        return False
    if need["level"] is None:
        return bool(event["at"] >= need["submitted"])
    # To a volume only what is above the need's level contributes.
    return event["level"] is not None and bool(event["level"] >= need["level"] + need["volume"])


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
