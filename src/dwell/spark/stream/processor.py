"""The stages as Spark's stateful processors: unpack, step, pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from dwell.spark.stream import keys, operations
from dwell.spark.stream.clock import EVENTS, OPERATIONS
from dwell.spark.stream.keys import KeyRows
from dwell.spark.stream.operations import OperationRows, layout
from dwell.spark.stream.spread import shard_names
from dwell.spark.stream.store import StateStore
from dwell.spark.stream.table import dump, fitted, ints, load, shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

    from dwell.spark.stream.terms import Terms

LINK = "shard int, until bigint, aside bigint, late bigint, ops binary, met binary, shown binary"
NEWS = "until bigint, pending bigint, aside bigint, late bigint, outcomes binary, shown binary"


class KeyProcessor(StatefulProcessor):
    """Stage 1: PACKED in, LINK out."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = StateStore(handle, "keys", keys.LAYOUT)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:
        shards, own, aside = self._terms.shards, int(key[0]), 0
        given, ops = KeyRows(), list[bytes]()
        for row in rows:
            given.beat.saw(OPERATIONS, row.op_rows or 0, row.op_latest)
            given.beat.saw(EVENTS, row.event_rows or 0, row.event_latest)
            given.beat.heard(row.now)
            aside += row.aside or 0
            if row.needs is not None:
                given.needs.append(load(row.needs))
            if row.events is not None:
                given.events.append(load(row.events))
            if row.ops is not None:
                ops.append(row.ops)
        news = keys.step(self._store, self._terms, given)
        met = _by_hash(news.met, shards)
        shown = _by_hash(news.shown, shards)

        def link(shard: int, **parts: Any) -> Row:
            empty = {"aside": 0, "late": 0, "ops": None, "met": None, "shown": None}
            return Row(**({"shard": shard, "until": news.until} | empty | parts))

        # One shard tells the time to all of the next stage; the rest speak where they have something to say.
        for number, shard in enumerate(shard_names(shards)):
            if own == 0 or number in met or number in shown:
                yield link(shard, met=met.get(number), shown=shown.get(number))
        if news.late or aside:
            yield link(own, late=news.late, aside=aside)
        for share in ops:
            yield link(own, ops=share)

    def close(self) -> None:
        pass


class OperationProcessor(StatefulProcessor):
    """Stage 2: LINK in, NEWS out, one row a shard."""

    def __init__(self, terms: Terms, schema: pa.Schema) -> None:
        self._terms, self._schema = terms, schema

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = StateStore(handle, "operations", layout(self._schema))

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:
        given, late, aside = OperationRows(0), 0, 0
        for row in rows:
            given.until = row.until
            aside += row.aside
            late += row.late
            if row.ops is not None:
                given.ops.append(fitted(load(row.ops), self._schema))
            if row.met is not None:
                given.met.append(load(row.met))
            if row.shown is not None:
                given.late.append(load(row.shown))
        news = operations.step(self._store, self._terms, self._schema, given)
        yield Row(
            until=given.until,
            pending=news.pending,
            aside=aside,
            late=late,
            outcomes=dump(news.outcomes) if news.outcomes.num_rows else None,
            shown=dump(news.late) if news.late.num_rows else None,
        )

    def close(self) -> None:
        pass


def _by_hash(rows: pa.RecordBatch, shards: int) -> dict[int, bytes]:
    return {shard: dump(share) for shard, share in shares(rows, ints(rows, "hash") % shards, shards)}
