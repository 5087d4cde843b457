"""Streams through Spark: equal to `replay`, row for row, with restarts, silence and late rows."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from dwell.errors import InvalidArgument
from dwell.ledger import Event, Need, Wait, replay
from dwell.spark import SettleOptions, settle
from dwell.spark.stream.listener import Figures
from dwell.spark.stream.pending import pending
from tests.spark.stream.feed import Feed, outcomes
from tests.spark.stream.test_shards import arrivals, history, split, time_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

OPTIONS = SettleOptions(lateness=timedelta(milliseconds=5), shards=3, idle_after=None, remember=timedelta(days=1))
END_MS = 10**9


def start(
    spark: SparkSession, feed: Feed, root: Path, options: SettleOptions = OPTIONS, every: str | None = None
) -> StreamingQuery:
    """Into Parquet; started again it goes on where it was."""
    writer = settle(*feed.read(spark), options=options).writeStream.format("parquet")
    writer = writer.option("path", str(root / "outcomes")).option("checkpointLocation", str(root / "checkpoint"))
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return writer.start()


def finish(query: StreamingQuery) -> StreamingQuery:
    """Waits until everything that was there is settled."""
    query.awaitTermination()
    return query


def wait_for(query: StreamingQuery, holds: Callable[[Figures], bool]) -> Figures:
    """The first micro-batch whose figures are as wanted."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert query.isActive, query.exception()
        for progress in query.recentProgress:
            figures = Figures.of(progress)
            if figures is not None and holds(figures):
                return figures
        time.sleep(0.1)
    raise AssertionError(f"not in time: {query.lastProgress}")


def long_history(seed: int, size: int) -> tuple[list[Wait], list[Event]]:
    """Many small histories on the same keys at the same time, with op_ids of their own."""
    rng = Random(seed)
    waits: list[Wait] = []
    events: list[Event] = []
    for number in range(size):
        some_waits, some_events = history(rng, 12)
        waits += [wait._replace(op_id=wait.op_id and f"{number}-{wait.op_id}") for wait in some_waits]
        events += some_events
    # Those at the ends of time would leave no time for an end of the stream.
    return [wait for wait in waits if _is_near(wait)], [event for event in events if _is_near(event)]


def write_history(root: Path, seed: int, files: int) -> tuple[list[Wait], list[Event]]:
    """A long history as files to be read one by one, and a last one that moves the watermark past all of it."""
    waits, events = long_history(seed, 40)
    rows = arrivals(Random(seed), waits, events, 5)
    feed = Feed(root / "in")
    for part in range(files):
        feed.add(*split(rows[part * len(rows) // files : (part + 1) * len(rows) // files]))
    feed.add([Wait("end", [Need("end")], 0, END_MS)], [Event("other", END_MS)])
    return waits, events


def _is_near(row: Wait | Event) -> bool:
    at_ms = time_of(row)
    return at_ms is None or abs(at_ms) < END_MS // 2


def test_a_history_cut_into_batches_and_restarted_settles_as_replay_does(streams: SparkSession, tmp_path: Path) -> None:
    rng = Random(7)
    waits, events = long_history(7, 60)
    rows = arrivals(rng, waits, events, 5)
    feed = Feed(tmp_path / "in")
    for part in range(5):
        feed.add(*split(rows[part * len(rows) // 5 : (part + 1) * len(rows) // 5]))
        if part == 2:
            finish(start(streams, feed, tmp_path))
    feed.add([Wait("end", [Need("end")], 0, END_MS)], [Event("other", END_MS)])
    query = finish(start(streams, feed, tmp_path))
    said = streams.read.parquet(str(tmp_path / "outcomes"))
    assert said.where("op_id is not null and note != 'about ' || op_id").count() == 0
    expected = Counter(replay(waits, events))
    assert Counter(outcomes(said)) == expected
    assert query.lastProgress is not None
    figures = Figures.of(query.lastProgress)
    assert figures is not None
    assert (figures.pending, figures.watermark_ms) == (1, END_MS - 5)
    (row,) = pending(streams, str(tmp_path / "checkpoint")).collect()
    assert (row.op_id, [tuple(need) for need in row.needs]) == ("end", [("end", None, None)])


def test_other_shards_over_a_checkpoint_are_refused_before_any_harm(streams: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    feed.add([Wait("a", [Need("k")], 10, 0)], [Event("k", 5)])
    finish(start(streams, feed, tmp_path))
    feed.add([Wait("end", [Need("end")], 0, END_MS)], [Event("other", END_MS)])
    with pytest.raises(StreamingQueryException, match="shards is 5, but the checkpoint was started with 3"):
        finish(start(streams, feed, tmp_path, SettleOptions(shards=5, idle_after=None)))
    finish(start(streams, feed, tmp_path))
    assert [(one.op_id, one.outcome) for one in outcomes(streams.read.parquet(str(tmp_path / "outcomes")))] == [
        ("a", "completed")
    ]


def test_in_silence_deadlines_pass_by_the_wall_clock(streams: SparkSession, tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    feed = Feed(tmp_path / "in")
    feed.add(
        [Wait("kept", [Need("k")], 60_000, now_ms), Wait("missed", [Need("n")], 1_000, now_ms)],
        [Event("k", now_ms)],
    )
    options = SettleOptions(shards=2, idle_after=timedelta(seconds=2), late_events=True)
    query = start(streams, feed, tmp_path, options, every="1 second")
    try:
        settled = wait_for(query, lambda figures: figures.pending == 0)
        # Now both are late: an event for the one that expired, and one that changes nothing.
        feed.add([], [Event("n", now_ms + 10), Event("z", now_ms)])
        wait_for(query, lambda figures: figures.late == 2)
    finally:
        query.stop()
    assert settled.watermark_ms > now_ms + 1_000
    rows = {row.op_id: row for row in streams.read.parquet(str(tmp_path / "outcomes")).where("late is null").collect()}
    assert {op_id: row.outcome for op_id, row in rows.items()} == {"kept": "completed", "missed": "expired"}
    late = streams.read.parquet(str(tmp_path / "outcomes")).where("late is not null").collect()
    assert {(row.late.key, row.late.outcome, row.op_id, row.outcome) for row in late} == {
        ("n", "expired", "missed", "completed"),
        ("z", None, None, None),
    }


def test_a_table_beside_a_stream_is_refused(streams: SparkSession, tmp_path: Path) -> None:
    operations, _ = Feed(tmp_path / "in").read(streams)
    table = streams.createDataFrame([], "key string, at timestamp, level bigint")
    with pytest.raises(InvalidArgument, match="events is a table"):
        settle(operations, table)


def test_without_rocksdb_the_setting_is_named(streams: SparkSession, tmp_path: Path) -> None:
    session = streams.newSession()
    with pytest.raises(InvalidArgument, match="providerClass"):
        settle(*Feed(tmp_path / "in").read(session))
