"""Streams through Spark: equal to `replay`, row for row, with a restart, figures on the way, silence and late rows."""

from __future__ import annotations

import io
import time
from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from dwell.errors import InvalidArgument
from dwell.ledger import Event, Need, Wait, replay
from dwell.spark import Figures, FiguresListener, SettleOptions, export_figures, pending, print_figures, settle
from dwell.spark.stream.plan import PROVIDER
from tests.spark.stream.feed import END_MS, Feed, outcomes
from tests.spark.stream.long_history import long_history
from tests.spark.stream.query import OPTIONS, finish, start, wait_for
from tests.spark.stream.test_shards import arrivals, split

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_history_cut_into_batches_and_restarted_settles_as_replay_does(streams: SparkSession, tmp_path: Path) -> None:
    waits, events = long_history(7, 60)
    rows = arrivals(Random(7), waits, events, 5)
    feed = Feed(tmp_path / "in")
    printed, registry = io.StringIO(), CollectorRegistry()
    listeners = [print_figures(printed), export_figures(registry)]
    for listener in listeners:
        streams.streams.addListener(listener)
    try:
        for part in range(4):
            feed.add(*split(rows[part * len(rows) // 4 : (part + 1) * len(rows) // 4]))
            if part == 1:
                finish(start(streams, feed, tmp_path))
        feed.end()
        query = finish(start(streams, feed, tmp_path))
        eventually(lambda: printed.getvalue().count("\n") == 5)
        eventually(lambda: registry.get_sample_value("dwell_pending", {"query": query.id, "settlement": "0"}) == 1)
    finally:
        for listener in listeners:
            streams.streams.removeListener(listener)
    said = streams.read.parquet(str(tmp_path / "outcomes"))
    assert said.where("op_id is not null and note != 'about ' || op_id").count() == 0
    expected = Counter(replay(waits, events))
    assert Counter(outcomes(said)) == expected

    last = dict(pair.split("=") for pair in printed.getvalue().splitlines()[-1].split())
    assert (last["query"], last["batch"], last["pending"]) == (query.id, "4", "1")
    assert int(last["watermark_ms"]) == END_MS - 5
    assert int(last["state_bytes"]) > 0
    kinds = Counter(one.outcome for one in expected.elements())
    labels = {"query": query.id, "settlement": "0"}
    for kind in ("completed", "expired", "rejected"):
        assert registry.get_sample_value(f"dwell_{kind}_total", labels) == kinds[kind] > 0


def eventually(holds: Callable[[], bool]) -> None:
    """Listeners hear of a micro-batch some time after it."""
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_in_silence_deadlines_pass_by_the_wall_clock(streams: SparkSession, tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    feed = Feed(tmp_path / "in")
    feed.add(
        [
            Wait("kept", [Need("k")], 60_000, now_ms),
            Wait("missed", [Need("n")], 1_000, now_ms),
            Wait("open", [Need("k"), Need("o")], 3_600_000, now_ms),
        ],
        [Event("k", now_ms)],
    )
    options = SettleOptions(shards=2, idle_after=timedelta(seconds=3), late_events=True)
    query = start(streams, feed, tmp_path, options, every="1 second")
    try:
        settled = wait_for(query, lambda figures: figures.pending == 1)
        # Now all are late: an event for the one that expired, one that changes nothing, and an operation.
        feed.add([Wait("slow", [Need("k")], 10, now_ms)], [Event("n", now_ms + 10), Event("z", now_ms)])
        wait_for(query, lambda figures: figures.late == 2)
        wait_for(query, lambda figures: figures.rejected == 1)
        waiting = pending(streams, str(tmp_path / "checkpoint")).collect()
    finally:
        query.stop()
    assert settled.watermark_ms > now_ms + 1_000
    assert [(row.op_id, [need.met_at is None for need in row.needs]) for row in waiting] == [("open", [False, True])]
    said = streams.read.parquet(str(tmp_path / "outcomes"))
    assert {(one.op_id, one.outcome, one.reason) for one in outcomes(said.where("late is null"))} == {
        ("kept", "completed", None),
        ("missed", "expired", None),
        ("slow", "rejected", f"submitted_at is older than the allowed lateness: {now_ms}"),
    }
    late = said.where("late is not null").collect()
    assert {(row.late.key, row.late.outcome, row.op_id, row.outcome) for row in late} == {
        ("n", None, None, None),
        ("n", "expired", "missed", "completed"),
        ("z", None, None, None),
    }


def test_a_table_beside_a_stream_is_refused(streams: SparkSession, tmp_path: Path) -> None:
    operations, events = Feed(tmp_path / "in").read(streams)
    with pytest.raises(InvalidArgument, match="events is a table and the other input a stream"):
        settle(operations, streams.createDataFrame([], events.schema))
    with pytest.raises(InvalidArgument, match="operations is a table and the other input a stream"):
        settle(streams.createDataFrame([], operations.schema), events)


def test_two_settlements_in_one_query_each_have_their_figures(streams: SparkSession, tmp_path: Path) -> None:
    feeds = [Feed(tmp_path / name) for name in ("one", "two")]
    feeds[0].add([Wait("a", [Need("k")], 10, 0), Wait("b", [Need("k")], 20, 0)], [Event("k", 15)])
    feeds[1].add([Wait("c", [Need("k")], 10, 0)], [Event("l", 15)])
    for feed in feeds:
        feed.end()
    heard: list[Figures] = []
    listener = FiguresListener(heard.append)
    streams.streams.addListener(listener)
    try:
        one, two = (settle(*feed.read(streams), options=OPTIONS) for feed in feeds)
        writer = one.union(two).writeStream.format("parquet").option("path", str(tmp_path / "outcomes"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        finish(writer.trigger(availableNow=True).start())
        eventually(lambda: sum(figures.completed + figures.expired for figures in heard) == 3)
    finally:
        streams.streams.removeListener(listener)
    said = {one.op_id: one.outcome for one in outcomes(streams.read.parquet(str(tmp_path / "outcomes")))}
    assert said == {"a": "expired", "b": "completed", "c": "expired"}
    decided = Counter[tuple[int, str]]()
    for figures in heard:
        decided.update({(figures.settlement, kind): getattr(figures, kind) for kind in ("completed", "expired")})
    assert +decided == {(0, "expired"): 1, (0, "completed"): 1, (1, "expired"): 1}
    # Each feed ends with an operation that waits.
    waiting = pending(streams, str(tmp_path / "checkpoint")).select("op_id", "needs.key").collect()
    assert [tuple(row) for row in waiting] == [("end", ["end"])] * 2


def test_only_a_state_store_known_not_to_do_is_refused(streams: SparkSession, tmp_path: Path) -> None:
    session = streams.newSession()
    feed = Feed(tmp_path / "in")
    with pytest.raises(InvalidArgument, match="providerClass"):
        settle(*feed.read(session))
    session.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    with pytest.raises(InvalidArgument, match=r"RocksDB state store: set .*providerClass"):
        settle(*feed.read(session))
    session.conf.set(PROVIDER, "com.example.streaming.state.RocksDBStateStoreProvider")
    assert settle(*feed.read(session)).isStreaming


def test_a_column_in_the_way_of_late_events_is_named(streams: SparkSession, tmp_path: Path) -> None:
    operations, events = Feed(tmp_path / "in").read(streams)
    with pytest.raises(InvalidArgument, match="operations has a column 'late'"):
        settle(operations.withColumnRenamed("note", "Late"), events, options=SettleOptions(late_events=True))


def test_as_of_is_for_tables(streams: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="as_of is for tables"):
        settle(*Feed(tmp_path / "in").read(streams), as_of=datetime(2026, 1, 1), options=OPTIONS)
