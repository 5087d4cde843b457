"""What is kept: no more than needed, and not touched without need. `test_shards.py` has the same without Spark."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import Event, Need, Wait
from dwell.spark import SettleOptions
from dwell.spark.stream.journal import SHORT_LOG
from tests.spark.stream.feed import END_MS, Feed, outcomes
from tests.spark.stream.query import OPTIONS, finish, start, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORK = ("rocksdbGetCount", "rocksdbPutCount", "rocksdbTotalBytesRead", "rocksdbTotalBytesWritten")


def test_a_key_is_forgotten_after_its_time(streams: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    late_ms = 2 * 3_600_000
    # Keys are forgotten when a log is folded, which takes some length.
    many = [Event(f"k{number}", late_ms - 100, 1) for number in range(SHORT_LOG)]
    feed.add(
        [Wait("first", [Need("idle", 7)], 10, 0), Wait("mover", [Need("x")], 0, late_ms)],
        [Event("idle", 0, 7), Event("busy", 0, 7), Event("busy", late_ms - 100, 8), *many, Event("x", late_ms)],
    )
    feed.add(
        [
            Wait("one", [Need("idle", 7)], 10, late_ms + 50),
            Wait("two", [Need("busy", 8)], 10, late_ms + 50),
            Wait("end", [Need("end")], 0, END_MS),
        ],
        [Event("other", END_MS)],
    )
    options = replace(OPTIONS, shards=1, forget_keys_after=timedelta(hours=1))
    finish(start(streams, feed, tmp_path, options))
    said = {one.op_id: one.outcome for one in outcomes(streams.read.parquet(str(tmp_path / "outcomes")))}
    assert said == {"first": "completed", "mover": "completed", "one": "expired", "two": "completed"}


def test_with_nothing_due_a_batch_costs_the_same_however_many_wait(streams: SparkSession, tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    feed = Feed(tmp_path / "in")
    feed.add([Wait("one", [Need("one")], 3_600_000, now_ms)], [Event("x", now_ms)])
    options = SettleOptions(shards=4, idle_after=timedelta(minutes=10))
    query = start(streams, feed, tmp_path, options, every="0 seconds")
    try:
        wait_for(query, lambda figures: figures.pending == 1)
        few = work_of_an_empty_batch(query)
        many = [Wait(f"op{number}", [Need(f"k{number}")], 3_600_000, now_ms) for number in range(100_000)]
        feed.add([*many, Wait("two", [Need("two")], 3_600_000, now_ms + 30_000)], [Event("x", now_ms + 30_000)])
        wait_for(query, lambda figures: figures.pending == 100_002)
        for some, stage in zip(few, work_of_an_empty_batch(query), strict=True):
            assert (stage["rocksdbGetCount"], stage["rocksdbPutCount"]) == (8, 4)
            # The figures in the headers have more digits now.
            assert all(abs(stage[name] - some[name]) < 100 for name in WORK)
        # Nor does one with a few rows read what has nothing to do with them.
        feed.add([Wait("new", [Need("n")], 3_600_000, now_ms + 50_000)], [Event("k7", now_ms + 50_000)])
        feed.add([Wait("newer", [Need("n")], 3_600_000, now_ms + 90_000)], [Event("x", now_ms + 90_000)])
        wait_for(query, lambda figures: figures.pending == 100_003)
        for stage in work_of_the_last_rows(query):
            assert stage["rocksdbTotalBytesRead"] < 1_500_000
    finally:
        query.stop()


def work_of_the_last_rows(query: StreamingQuery) -> list[dict[str, int]]:
    """What the last micro-batch that had rows in both inputs did to the state, for each stage."""
    told = [one for one in query.recentProgress if all(source.numInputRows for source in one.sources[:2])]
    return work(told[-1])


def work_of_an_empty_batch(query: StreamingQuery) -> list[dict[str, int]]:
    """What the next micro-batch that has but a heartbeat does to the state, for each stage."""
    last = query.recentProgress[-1].batchId
    wait_for(query, lambda figures: figures.batch > last + 1)
    progress = next(one for one in query.recentProgress if one.batchId == last + 2)
    assert [source.numInputRows > 0 for source in progress.sources] == [False, False, True]
    return work(progress)


def work(progress: StreamingQueryProgress) -> list[dict[str, int]]:
    return [{name: operator.customMetrics[name] for name in WORK} for operator in progress.stateOperators]
