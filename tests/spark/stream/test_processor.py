"""The processors in Spark's own tester, without a JVM."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from dwell.errors import InvalidArgument
from dwell.ledger import Event, Need, Wait, replay
from dwell.ledger.admission import fault, is_usable_event
from dwell.spark.stream.pack import OP_COLUMNS, pack_beats, pack_events, pack_operations
from dwell.spark.stream.processor import KeyProcessor, OperationProcessor
from dwell.spark.stream.table import load
from tests.spark.histories import column_history
from tests.spark.stream.shards import OPS, number, operation, sorted_needs
from tests.spark.stream.test_shards import FAR_MS, arrivals, split, terms


def packed(waits: list[Wait], events: list[Event]) -> list[Row]:
    """For one shard."""
    rows: list[Row] = []
    if waits:
        ops = pa.RecordBatch.from_pylist([operation(wait) for wait in waits], OPS)
        asked = [None if fault(*wait) else [number(need.key) for need in sorted_needs(wait)] for wait in waits]
        hashes = pa.array(asked, pa.list_(pa.int64()))
        batch = pa.RecordBatch.from_arrays([*ops.columns, hashes], names=[*OP_COLUMNS, "key_hashes"])
        rows += [Row(**row) for one in pack_operations(1)([batch]) for row in one.to_pylist()]
    if events:
        heard = [
            {"key": e.key, "at": e.at_ms, "level": e.level, "hash": number(e.key) if is_usable_event(e) else None}
            for e in events
        ]
        schema = pa.schema([("key", pa.string()), ("at", pa.int64()), ("level", pa.int64()), ("hash", pa.int64())])
        batch = pa.RecordBatch.from_pylist(heard, schema)
        rows += [Row(**row) for one in pack_events(1)([batch]) for row in one.to_pylist()]
    return rows


def outcomes(news: list[Row]) -> list[tuple[Any, ...]]:
    return [
        (row["op_id"], row["outcome"], row["finished"])
        for one in news
        if one.outcomes is not None
        for row in load(one.outcomes).to_pylist()
    ]


def test_rows_in_at_one_end_outcomes_out_at_the_other() -> None:
    one = terms(shards=1)
    keys, operations = TwsTester(KeyProcessor(one)), TwsTester(OperationProcessor(one, OPS))

    def batch(waits: list[Wait], events: list[Event]) -> list[Row]:
        return operations.test(0, keys.test(0, packed(waits, events)))

    waits = [Wait("a", [Need("k", 3)], 10, 0), Wait("b", [Need("k"), Need("l")], 10, 0)]
    news = batch(waits, [Event("k", 4, 5)])
    assert outcomes(news) == []
    assert [row.pending for row in news] == [2]
    news = batch([Wait("c", [Need("c")], 10, 20)], [Event("x", 20)])
    assert sorted(outcomes(news)) == [("a", "completed", 4), ("b", "expired", 10)]
    assert [row.pending for row in news] == [1]


def test_rows_that_say_nothing_of_time_do_not_break_a_silence() -> None:
    one = terms(shards=1)
    keys, operations = TwsTester(KeyProcessor(one)), TwsTester(OperationProcessor(one, OPS))

    def batch(now_ms: int, waits: list[Wait], events: list[Event]) -> list[tuple[Any, ...]]:
        (beat,) = pack_beats(1)([pa.RecordBatch.from_pydict({"now": [now_ms]})])
        given = [Row(**row) for row in beat.to_pylist()] + packed(waits, events)
        return outcomes(operations.test(0, keys.test(0, given)))

    said = batch(100, [Wait("a", [Need("k")], 5, 100)], [Event("x", 100)])
    useless = [Event(None, 101), Event("k", None), Event("k", 2**53)]
    for now_ms in range(101, 130):
        said += batch(now_ms, [Wait("bad", [Need("k")], -1, 101)], useless)
    # Quiet since 100 for the 10 ms of the terms: by 116 the watermark has passed the deadline.
    assert said == [("bad", "rejected", None), ("a", "expired", 105)]


@pytest.mark.usefixtures("folding")
def test_what_lies_in_state_comes_back_as_it_was() -> None:
    for seed in range(10):
        rng = Random(seed)
        waits, events = column_history(rng, 12)
        one = terms(5, shards=1, remember_ms=10**15)
        keys, operations = TwsTester(KeyProcessor(one)), TwsTester(OperationProcessor(one, OPS))
        rows, batches = arrivals(rng, waits, events, 5), list[list[Row]]()
        while rows:
            batch, rows = rows[: (size := rng.randint(1, 6))], rows[size:]
            batches.append(packed(*split(batch)))
        for now_ms in (FAR_MS, FAR_MS + 10):
            (beat,) = pack_beats(1)([pa.RecordBatch.from_pydict({"now": [now_ms]})])
            batches.append([Row(**row) for row in beat.to_pylist()])
        said = Counter[tuple[Any, ...]]()
        for given in batches:
            said.update(outcomes(operations.test(0, keys.test(0, given))))
        assert said == Counter(one[:3] for one in replay(waits, events)), f"seed {seed}"


def test_state_written_under_other_terms_is_refused() -> None:
    tester = TwsTester(KeyProcessor(terms(shards=1)))
    tester.updateValueState("keys_header", 0, ('{"format": 0, "shards": 1}',))
    with pytest.raises(InvalidArgument, match="state of format 0"):
        tester.test(0, packed([], [Event("k", 1)]))
