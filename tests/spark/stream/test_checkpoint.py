"""What may change over a checkpoint, what is refused before any harm, and what can be read from it."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from dwell.errors import InvalidArgument
from dwell.ledger import Event, Need, Wait, replay
from dwell.spark import pending, settle
from dwell.spark.stream import journal
from dwell.spark.stream.plan import PROVIDER, ROCKSDB
from tests.spark.stream.feed import END_MS, Feed, outcomes
from tests.spark.stream.long_history import long_history
from tests.spark.stream.query import OPTIONS, finish, start, wait_for
from tests.spark.stream.test_shards import arrivals, split

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_options_change_safely_or_are_refused_before_any_harm(streams: SparkSession, tmp_path: Path) -> None:
    waits, events = long_history(11, 30)
    rows = arrivals(Random(11), waits, events, 5)
    feed = Feed(tmp_path / "in")
    feed.add(*split(rows[: len(rows) // 2]))
    finish(start(streams, feed, tmp_path))
    feed.add(*split(rows[len(rows) // 2 :]))
    with pytest.raises(StreamingQueryException, match="shards is 5, but the checkpoint was started with 3"):
        finish(start(streams, feed, tmp_path, replace(OPTIONS, shards=5)))
    safe = replace(
        OPTIONS,
        lateness=timedelta(milliseconds=40),
        remember=timedelta(days=2),
        forget_keys_after=timedelta(days=1),
        idle_after=timedelta(days=30_000),
    )
    feed.end()
    finish(start(streams, feed, tmp_path, safe))
    assert Counter(outcomes(streams.read.parquet(str(tmp_path / "outcomes")))) == Counter(replay(waits, events))


def test_columns_that_pass_through_are_known_by_name_and_time_zones_do_not_matter(
    streams: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = streams.newSession()
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    feed = Feed(tmp_path / "in")
    checkpoint = str(tmp_path / "checkpoint")
    own = ("op_id", "submitted_at", "delay_ms", "needs", "quorum", "volume")
    runs: tuple[tuple[Wait, list[Event], tuple[str, ...], str], ...] = (
        # One input alone makes no watermark.
        (Wait("a", [Need("k")], 1000, 0), [], ("note", "ms", "other"), "UTC"),
        (Wait("b", [Need("k")], 1000, 5000), [Event("x", 5000)], ("ms", "other", "new", "note"), "Asia/Tokyo"),
    )
    for wait, heard, extras, zone in runs:
        spark.conf.set("spark.sql.session.timeZone", zone)
        feed.add([wait, wait], heard)
        operations, events = feed.read(spark)
        operations = operations.withColumns(
            {"ms": F.col("submitted_at"), "other": F.lit("other"), "new": F.lit("never null")}
        )
        writer = settle(operations.select(*own, *extras), events, options=OPTIONS).writeStream.foreachBatch(
            lambda batch, number: batch.write.mode("overwrite").parquet(str(tmp_path / f"out/batch={number}"))
        )
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
        waiting = [(row.op_id, row.watermark is None) for row in pending(spark, checkpoint).collect()]
        assert waiting == [(wait.op_id, not heard)]
    said = spark.read.parquet(str(tmp_path / "out/batch=1"))
    rows = said.select("op_id", "outcome", "note", "other", "new", F.unix_millis("ms")).collect()
    assert [tuple(row) for row in rows] == [("a", "expired", "about a", "other", None, 0)]
    monkeypatch.setattr(journal, "FORMAT", 99)
    with pytest.raises(InvalidArgument, match="this version of dwell writes format 99"):
        pending(spark, checkpoint)


def test_a_backlog_without_idle_time_then_a_live_stream_and_back(streams: SparkSession, tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    feed = Feed(tmp_path / "in")
    feed.add([Wait("one", [Need("k")], 10, 0), Wait("two", [Need("k")], 1_000, now_ms)], [Event("k", 5)])
    finish(start(streams, feed, tmp_path))
    live = start(streams, feed, tmp_path, replace(OPTIONS, idle_after=timedelta(seconds=2)), every="1 second")
    try:
        wait_for(live, lambda figures: figures.pending == 0)
    finally:
        live.stop()
    later_ms = now_ms + 3_600_000
    feed.add([Wait("three", [Need("k")], 10, later_ms)], [Event("k", later_ms + 5)])
    feed.add([Wait("end", [Need("k")], 10, 2 * later_ms)], [Event("end", 2 * later_ms)])
    finish(start(streams, feed, tmp_path))
    said = {one.op_id: one.outcome for one in outcomes(streams.read.parquet(str(tmp_path / "outcomes")))}
    assert said == {"one": "completed", "two": "expired", "three": "completed"}


def test_a_column_that_passes_through_with_another_type_is_refused_and_harms_nothing(
    streams: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in")
    waits = [Wait(f"op{i}", [Need(f"k{i}")], 10_000, i) for i in range(5)]

    def run(note: str | None) -> None:
        operations, events = feed.read(streams)
        operations = operations.drop("note") if note is None else operations.withColumn("note", F.expr(note))
        writer = settle(operations, events, options=OPTIONS).writeStream.foreachBatch(
            lambda batch, number: batch.write.mode("overwrite").json(str(tmp_path / f"out/batch={number}"))
        )
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()

    def committed() -> int:
        return len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))

    feed.add(waits[:2], [Event("x", 1)])
    run("note")
    for wait in waits[2:]:
        feed.add([wait], [Event("x", wait.submitted_at_ms)])
    before = committed()
    found = "operations has a column 'note' of type array<int>, but in the checkpoint it is of type string"
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=re.escape(found)):
            run("array(1)")
        assert committed() == before
    feed.end()
    run("note")
    rows = streams.read.json(str(tmp_path / "out/*")).select("op_id", "outcome", "note").collect()
    assert sorted(map(tuple, rows)) == [(f"op{i}", "expired", f"about op{i}") for i in range(5)]
    # All such columns may go.
    feed.add([Wait("last", [Need("k")], 0, 2 * END_MS)], [Event("x", 2 * END_MS)])
    run(None)
    rows = streams.read.json(str(tmp_path / "out/*")).select("op_id", "outcome").collect()
    assert ("end", "expired") in map(tuple, rows)


@pytest.mark.slow
def test_late_events_can_be_asked_for_later_and_no_more(streams: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    feed.add([Wait("old", [Need("k")], 10, 0), Wait("mover", [Need("x")], 9000, 100)], [Event("x", 100)])
    finish(start(streams, feed, tmp_path))
    asked = replace(OPTIONS, late_events=True)
    feed.add(
        [Wait("young", [Need("l")], 10, 120), Wait("mover-2", [Need("y")], 9000, 200)], [Event("k", 5), Event("y", 200)]
    )
    feed.add([], [Event("l", 125)])
    finish(start(streams, feed, tmp_path, asked))
    feed.add([], [Event("l", 126)])
    feed.end()
    finish(start(streams, feed, tmp_path))
    rows = streams.read.option("mergeSchema", True).parquet(str(tmp_path / "outcomes")).collect()
    said = {row.op_id: row.outcome for row in rows if row.late is None}
    assert said == {"old": "expired", "young": "expired", "mover": "completed", "mover-2": "completed"}
    late = {(row.late.key, row.op_id, row.outcome) for row in rows if row.late is not None}
    assert late == {("k", None, None), ("k", "old", "completed"), ("l", None, None), ("l", "young", "completed")}


@pytest.mark.slow
def test_what_waits_can_be_read_with_what_it_has_so_far(streams: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    feed.add(
        [
            Wait("both", [Need("k", 3), Need("l")], 1000, 0, 1),
            Wait("all", [Need("k", 5), Need("l")], 1000, 0),
            Wait("volume", [Need("k", 1), Need("m", 1)], 1000, 0, None, 100),
            Wait("over", [Need("z")], 10, 0),
        ],
        [Event("k", 20, 4), Event("k", 30, 7), Event("l", 200)],
    )
    # The watermark comes to 95: what happened later is not decided yet.
    feed.add([Wait("later", [Need("k", 1)], 5, 150), Wait("mover", [Need("x")], 1000, 100)], [Event("x", 100)])
    checkpoint = str(tmp_path / "checkpoint")
    finish(start(streams, feed, tmp_path, replace(OPTIONS, lateness=timedelta(milliseconds=55))))
    waiting = {row.op_id: row for row in pending(streams, checkpoint).collect()}
    met = {
        op_id: [need.met_at and round(need.met_at.timestamp() * 1000) for need in row.needs]
        for op_id, row in waiting.items()
    }
    assert met == {"all": [30, None], "volume": [20, None], "later": [None], "mover": [None]}
    assert {row.watermark.timestamp() for row in waiting.values()} == {0.095}
    assert {row.deadline.timestamp() for row in waiting.values()} == {1.0, 0.155, 1.1}
    assert {row.volume for row in waiting.values()} == {None, 100}


def test_a_checkpoint_of_another_query_is_not_taken_for_one(streams: SparkSession, tmp_path: Path) -> None:
    other = streams.readStream.format("rate").load().dropDuplicates(["value"]).writeStream.format("noop")
    other.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    with pytest.raises(InvalidArgument, match="is not the checkpoint of a settlement"):
        pending(streams, str(tmp_path))
