"""One shard of stage 2 for one micro-batch: operations and needs met in, outcomes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.ledger.reason import MAX_MS, Reason
from dwell.ledger.value import REJECTED
from dwell.spark.stream.clock import START
from dwell.spark.stream.decide import Decisions, Operations, alike, deadlines, decide, fold, stirred
from dwell.spark.stream.journal import Header, Journal, folded, is_long, opened
from dwell.spark.stream.late import LATE, SHOWN, changed
from dwell.spark.stream.meet import distinct
from dwell.spark.stream.table import KNOWN, MET, empty, ints, joined, present, where
from dwell.spark.stream.timeline import NEVER

if TYPE_CHECKING:
    from dwell.spark.stream.terms import Terms


def snapshot_schemas(ops: pa.Schema) -> dict[str, pa.Schema]:
    """Of the snapshot and of the log alike."""
    return {"ops": ops, "met": MET, "known": KNOWN}


@dataclass(slots=True)
class OperationRows:
    """What a micro-batch has for one shard."""

    until: int
    ops: list[pa.RecordBatch] = field(default_factory=list)
    met: list[pa.RecordBatch] = field(default_factory=list)
    late: list[pa.RecordBatch] = field(default_factory=list)


class OperationNews(NamedTuple):
    """What the shard says: outcomes, late events, and how many operations still wait."""

    outcomes: pa.RecordBatch
    late: pa.RecordBatch
    pending: int


def step(journal: Journal, terms: Terms, schema: pa.Schema, rows: OperationRows) -> OperationNews:
    new_header = {"watermark": START, "next": int(NEVER), "pending": 0, "later": 0}
    header = opened(journal.header(), terms.shards, new_header)
    since, until = header["watermark"], rows.until
    header["watermark"] = until
    ops, met = joined(rows.ops, schema), joined(rows.met, MET)
    refused = present(ops, "fault") | (ints(ops, "submitted") < since)
    header["next"] = min(header["next"], int(ints(ops, "submitted")[~refused].min(initial=NEVER)))
    late = joined(rows.late, LATE)
    outcomes, shown = empty(outcome_schema(schema)), empty(SHOWN)
    if refused.any() or met.num_rows or late.num_rows or header["next"] < until:
        known = Operations(**journal.snapshot()).and_then(**journal.log())
        rejected, remembered = _refuse(where(ops, refused), known, terms, until)
        arrived = {"ops": where(ops, ~refused), "met": met, "known": remembered}
        known = known.and_then(**arrived)
        at = decide(stirred(known, since, until), until)
        now = (at.instant >= since) & (at.instant < until)
        outcomes = joined([rejected, _outcomes(at.only(now))], outcome_schema(schema))
        shown = changed(known, late, until) if late.num_rows else shown
        new = at.first & (ints(at.ops, "submitted") >= since)
        header["pending"] += int(new.sum() - (at.first & now).sum())
        header["spent"] += int(now.sum())
        _keep(journal, terms, header, arrived, known, until)
    elif ops.num_rows:
        journal.append({"ops": ops})
        header["logged"] += ops.num_rows
        header["later"] += ops.num_rows
    journal.keep_header(header)
    return OperationNews(outcomes, shown, header["pending"] + header["later"])


def _keep(
    journal: Journal,
    terms: Terms,
    header: Header,
    arrived: dict[str, pa.RecordBatch],
    known: Operations,
    until: int,
) -> None:
    later = where(known.ops, ints(known.ops, "submitted") >= until)
    header["later"] = later.num_rows
    header["next"] = _next(known.ops, until)
    header["logged"] += sum(table.num_rows for table in arrived.values())
    if is_long(header):
        known = fold(known, until, terms.remember_ms, linger=terms.late_events)
        journal.rewrite(known._asdict(), {"ops": later})
        folded(header, (*known, later))
    else:
        journal.append(arrived)


def _next(ops: pa.RecordBatch, until: int) -> int:
    """When the watermark must be passed for something to be due; a settled operation may make it too early."""
    submitted, due = ints(ops, "submitted"), deadlines(ops)
    times = np.where(submitted >= until, submitted, due)
    return int(times[times >= until].min(initial=NEVER))


def _refuse(ops: pa.RecordBatch, known: Operations, terms: Terms, until: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Operations with a fault of their own, or too late: their outcomes, and what to remember of them.

    A late row that repeats an operation we know is no second operation.
    """
    named = pc.fill_null(pc.not_equal(ops.column("op_id"), ""), False).to_numpy(zero_copy_only=False)
    once = np.zeros(ops.num_rows, np.bool_)
    once[distinct(ints(ops, "hash"), ints(ops, "tag"))] = True
    repeats = alike(ops, known.ops) | alike(ops, known.known)
    ops = where(ops, ~named | (once & ~repeats))
    named = pc.fill_null(pc.not_equal(ops.column("op_id"), ""), False)
    late = pc.binary_join_element_wise(Reason.TOO_LATE.value, pc.cast(ops.column("submitted"), pa.string()), ": ")
    nothing = pa.nulls(ops.num_rows, pa.int64())
    outcomes = pa.RecordBatch.from_arrays(
        [
            ops.column("op_id"),
            pa.array([REJECTED] * ops.num_rows, pa.string()),
            nothing,
            nothing,
            pa.nulls(ops.num_rows, pa.string()),
            pc.coalesce(ops.column("fault"), late),
            *_extra(ops),
        ],
        schema=outcome_schema(ops.schema),
    )
    # They have their outcome now; what a faulty row says of time may be nonsense, or nothing.
    from_ = np.minimum(np.maximum(ints(ops, "submitted", until), until), MAX_MS)
    remembered = pa.RecordBatch.from_arrays(
        [
            ops.column("hash"),
            ops.column("tag"),
            pa.array(from_ + terms.remember_ms),
            pa.array(np.zeros(ops.num_rows, np.bool_)),
        ],
        schema=KNOWN,
    )
    return outcomes, remembered.filter(named)


def outcome_schema(ops: pa.Schema) -> pa.Schema:
    fields = [
        pa.field("op_id", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("finished", pa.int64()),
        pa.field("waited", pa.int64()),
        pa.field("completed_by", pa.string()),
        pa.field("reason", pa.string()),
    ]
    return pa.schema(fields + ([ops.field("extra")] if "extra" in ops.names else []))


def _outcomes(at: Decisions) -> pa.RecordBatch:
    finished = at.finished()
    columns = [
        at.ops.column("op_id"),
        at.outcome(),
        finished,
        pc.subtract(finished, at.ops.column("submitted")),
        at.completed_by(),
        at.reason(),
        *_extra(at.ops),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=outcome_schema(at.ops.schema))


def _extra(ops: pa.RecordBatch) -> list[pa.Array]:
    return [ops.column("extra")] if "extra" in ops.schema.names else []
