"""Streams through Spark: equal to `replay`, row for row."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import Event, Need, Wait, replay
from dwell.spark.options import SettleOptions
from dwell.spark.stream.plan import settle_stream
from tests.ledger.history import random_history
from tests.spark.stream.feed import Feed, outcomes
from tests.spark.stream.test_shards import arrivals

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def settle_to(spark: SparkSession, feed: Feed, root: Path, options: SettleOptions) -> None:
    """Everything the feed has by now, into Parquet; called again it goes on where it was."""
    query = (
        settle_stream(*feed.read(spark), options)
        .writeStream.option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .format("parquet")
        .option("path", str(root / "outcomes"))
        .start()
    )
    query.awaitTermination()


def test_a_history_cut_into_batches_and_restarted_settles_as_replay_does(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(7)
    waits: list[Wait] = []
    events: list[Event] = []
    for number in range(60):
        some_waits, some_events = random_history(rng, size=12)
        if all(abs(event.at_ms or 0) < 10**6 for event in some_events):
            waits += [wait._replace(op_id=wait.op_id and f"{number}-{wait.op_id}") for wait in some_waits]
            events += some_events
    rows = arrivals(rng, waits, events, 5)
    options = SettleOptions(
        lateness=timedelta(milliseconds=5), shards=3, remember=timedelta(days=1), idle_after=None
    )
    feed = Feed(tmp_path / "in")
    for part in range(8):
        cut = [rows[i] for i in range(len(rows)) if i * 8 // len(rows) == part]
        feed.add([row for row in cut if isinstance(row, Wait)], [row for row in cut if isinstance(row, Event)])
        if part == 4:
            settle_to(spark, feed, tmp_path, options)
    end = Wait("end", [Need("end")], 0, 10**9)
    feed.add([end], [Event("other", 10**9)])
    settle_to(spark, feed, tmp_path, options)
    said = spark.read.parquet(str(tmp_path / "outcomes"))
    assert said.where("op_id is not null and note != 'about ' || op_id").count() == 0
    assert Counter(outcomes(said)) == Counter(replay(waits, events))
