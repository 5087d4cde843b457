"""A settlement as a query of the test's own session."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from dwell.spark import SettleOptions, settle
from dwell.spark.stream.listener import Figures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.spark.stream.feed import Feed

OPTIONS = SettleOptions(lateness=timedelta(milliseconds=5), shards=3, idle_after=None, remember=timedelta(days=1))


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
            for figures in Figures.of(progress):
                if holds(figures):
                    return figures
        time.sleep(0.1)
    raise AssertionError(f"not in time: {query.lastProgress}")
