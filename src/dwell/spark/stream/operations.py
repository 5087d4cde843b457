"""One shard of stage 2 for one micro-batch: operations and needs met in, outcomes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.contract.columns import REJECTED
from dwell.contract.reason import Reason
from dwell.contract.time_range import MAX_MS
from dwell.spark.stream.clock import START
from dwell.spark.stream.decide import Decisions, Operations, alike, deadlines, decide, fold, rows_of, stirred
from dwell.spark.stream.journal import Journal, Times, opened
from dwell.spark.stream.late import LATE, SHOWN, changed
from dwell.spark.stream.meet import distinct
from dwell.spark.stream.passing import column_types
from dwell.spark.stream.store import Layout
from dwell.spark.stream.table import KNOWN, MET, among, cells, empty, ints, joined, present, where
from dwell.spark.stream.timeline import NEVER

if TYPE_CHECKING:
    from dwell.spark.stream.store import Store, Tables
    from dwell.spark.stream.table import Ints
    from dwell.spark.stream.terms import Terms


def layout(ops: pa.Schema) -> Layout:
    tables = {"ops": ops, "met": MET, "known": KNOWN}
    return Layout(parts=tables, log=tables, times={"ops": "submitted"})


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


def step(store: Store, terms: Terms, schema: pa.Schema, rows: OperationRows) -> OperationNews:
    header = opened(store.header(), terms.shards, {"watermark": START, "pending": 0, "put_off": 0, "columns": {}})
    since, until = header["watermark"], rows.until
    header["columns"] = column_types(header["columns"], schema)
    header["watermark"] = until
    ops, met, late = joined(rows.ops, schema), joined(rows.met, MET), joined(rows.late, LATE)
    outcomes, shown = empty(outcome_schema(schema)), empty(SHOWN)
    if ops.num_rows or met.num_rows or late.num_rows or header["next"] < until:
        refused = present(ops, "fault") | (ints(ops, "submitted") < since)
        journal = OperationJournal(store, terms, until)
        ripe = journal.ripe({"ops": where(ops, ~refused)})["ops"]
        about = [ripe, where(ops, refused), met, where(late, present(late, "hash"))]
        if header["next"] < until or any(table.num_rows for table in (*about, late)):
            log = journal.log()
            # Its rivals may be in a part.
            due = deadlines(log["ops"])
            about.append(where(log["ops"], (due >= since) & (due < until)))
            parts = Operations(**journal.known(about))
            known = parts.and_then(**log)
            rejected, remembered = _refuse(where(ops, refused), known, terms, until)
            news = {"ops": ripe, "met": met, "known": remembered}
            known = known.and_then(**news)
            at = decide(stirred(known, since, until), until)
            now = (at.instant >= since) & (at.instant < until)
            outcomes = joined([rejected, _outcomes(at.only(now))], outcome_schema(schema))
            shown = changed(known, late, until) if late.num_rows else shown
            new = at.first & (ints(at.ops, "submitted") >= since)
            header["pending"] += int(new.sum() - (at.first & now).sum())
            settled = at.ops.column("hash").filter(pa.array(now & at.first))
            journal.spend(sum(int(among(rows.column("hash"), settled).sum()) for rows in (parts.ops, parts.met)))
            journal.keep(news)
        journal.close()
        header["next"], header["put_off"] = journal.next, journal.put_off
    store.keep_header(header)
    return OperationNews(outcomes, shown, header["pending"] + header["put_off"])


class OperationJournal(Journal):
    def __init__(self, store: Store, terms: Terms, until: int) -> None:
        self._terms = terms
        super().__init__(store, until)

    @property
    def lasts(self) -> list[int | None]:
        return [self._terms.remember_ms, int(self._terms.late_events)]

    def cells(self, table: pa.RecordBatch) -> Ints:
        return cells(ints(table, "hash"), self._terms.shards)

    def fold(self, known: Tables, log: Tables) -> Tables:
        terms = self._terms
        all_ = Operations(**known).and_then(**log)
        return fold(all_, self._until, terms.remember_ms, linger=terms.late_events)._asdict()

    def came(self, known: Tables) -> Times:
        return Times(self.cells(known["ops"]), ints(known["ops"], "submitted"))

    def due(self, tables: Tables) -> Times:
        """A settled operation may make it too early."""
        return Times(self.cells(tables["ops"]), deadlines(tables["ops"]))

    def over(self, known: Tables) -> Times:
        cells, until = self.cells(known["known"]), ints(known["known"], "until")
        if not self._terms.late_events:
            return Times(cells, until)
        # Settled ones are still there, whole.
        at = decide(Operations(**known), self._until)
        leaves = np.where(at.instant == NEVER, deadlines(at.ops), at.instant) + self._terms.remember_ms
        row = rows_of(at.ops, known["met"])
        tables = (cells, self.cells(at.ops), self.cells(known["met"])[row >= 0])
        return Times(np.concatenate(tables), np.concatenate([until, leaves, leaves[row[row >= 0]]]))


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
