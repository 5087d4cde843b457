"""Settling streams on Spark: rows a second with 10 k, 100 k and 1 M operations pending, and with three keys each.

    python -m benchmarks stream [--operations 200000] [--pending 10000,100000,1000000] [--batches 6] [--quick]

The same files go, one of each kind a micro-batch, through

    settle        dwell
    outer join    Spark's own: a left outer join of two streams, repeats dropped, in event time
    per key       transformWithState keyed by the watch key, one timer an operation, rows as they come

and each is asked for the time its micro-batches took, after one that brings what is pending, and for the processor time
of Spark and its workers, which other work on the machine does not change. A need and an event are one row each.
Before that each runs for a while unmeasured: a stream runs for days, and in its first minute the JVM compiles itself.
The peers do less: they know neither levels, nor several keys, nor late rows, and are silent when their inputs are.

Last comes what RocksDB has on disk for each pending operation, once it has compacted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks import stream_load
from dwell.spark import SettleOptions, settle
from dwell.spark.stream.plan import PROVIDER, ROCKSDB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

LATENESS = "1 second"
WARM_UP_BATCHES = 24
STATE_STORE = "spark.sql.streaming.stateStore.rocksdb"


def settled(operations: DataFrame, events: DataFrame) -> DataFrame:
    options = SettleOptions(lateness=timedelta(seconds=1), idle_after=None, shards=8)
    return settle(operations, events, options=options).drop("reason")


def joined(operations: DataFrame, events: DataFrame) -> DataFrame:
    waits = operations.select(
        "op_id",
        "submitted_at",
        F.timestamp_millis(F.unix_millis("submitted_at") + F.col("delay_ms")).alias("deadline"),
        F.col("needs")[0]["key"].alias("need"),
    ).withWatermark("submitted_at", LATENESS)
    heard = events.withWatermark("at", LATENESS).select("key", "at")
    delay = F.expr(f"submitted_at + interval {stream_load.LONG_MS} milliseconds")
    met = waits.join(
        heard,
        (F.col("need") == F.col("key"))
        & (F.col("at") >= F.col("submitted_at"))
        & (F.col("at") <= delay)
        & (F.col("at") <= F.col("deadline")),
        "leftOuter",
    )
    # A stream may have one event time only, so the other becomes a number.
    once = met.withColumn("at", F.unix_millis("at")).dropDuplicates(["op_id", "submitted_at"])
    return once.select("op_id", "submitted_at", "at", "key")


class PerKey(StatefulProcessor):
    """One operation a key, one timer an operation, as one would write it first."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._wait = handle.getValueState("wait", "op_id string, submitted bigint, deadline bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        first: int | None = None
        for row in rows:
            if row.op_id is not None:
                self._wait.update((row.op_id, row.at, row.deadline))
                self._handle.registerTimer(row.deadline)
            elif first is None or row.at < first:
                first = row.at
        if first is not None and (kept := self._wait.get()) is not None and kept[1] <= first <= kept[2]:
            self._handle.deleteTimer(kept[2])
            self._wait.clear()
            yield Row(op_id=kept[0], finished=first, outcome="completed")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        if (kept := self._wait.get()) is not None:
            self._wait.clear()
            yield Row(op_id=kept[0], finished=kept[2], outcome="expired")

    def close(self) -> None:
        pass


def per_key(operations: DataFrame, events: DataFrame) -> DataFrame:
    waits = operations.withWatermark("submitted_at", LATENESS).select(
        F.col("needs")[0]["key"].alias("key"),
        "op_id",
        F.unix_millis("submitted_at").alias("at"),
        (F.unix_millis("submitted_at") + F.col("delay_ms")).alias("deadline"),
    )
    heard = events.withWatermark("at", LATENESS).select(
        "key",
        F.lit(None).cast("string").alias("op_id"),
        F.unix_millis("at").alias("at"),
        F.lit(None).cast("bigint").alias("deadline"),
    )
    return (
        waits.union(heard)
        .groupBy("key")
        .transformWithState(PerKey(), "op_id string, finished bigint, outcome string", "append", "eventTime")
    )


class Speed(NamedTuple):
    """Rows a second, by the clock and by processor time."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:>8,.0f} {self.cpu:>8,.0f}"


def start(spark: SparkSession, root: Path, peer: Callable[[DataFrame, DataFrame], DataFrame]) -> StreamingQuery:
    def stream(name: str) -> DataFrame:
        schema = spark.read.parquet(str(root / name)).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / name))

    out = root / peer.__name__
    writer = peer(stream("operations"), stream("events")).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(out / "checkpoint")).format("parquet")
    return writer.option("path", str(out / "outcomes")).start()


def measure(spark: SparkSession, root: Path, rows: int, peer: Callable[[DataFrame, DataFrame], DataFrame]) -> Speed:
    query = start(spark, root, peer)
    # The first batch brings what is pending. Those after the last only pass deadlines; they count.
    commits = root / peer.__name__ / "checkpoint" / "commits" / "0"
    while not commits.exists() and query.isActive:
        time.sleep(0.01)
    before = cpu_seconds()
    query.awaitTermination()
    spent = sum(progress.durationMs["triggerExecution"] for progress in query.recentProgress if progress.batchId > 0)
    return Speed(rows / spent * 1000, rows / (cpu_seconds() - before))


def footprint(spark: SparkSession, root: Path, pending: int, keys: int) -> float:
    """Bytes of RocksDB's files for each pending operation, with nothing in them that is no longer needed."""
    spark = spark.newSession()
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set(f"{STATE_STORE}.changelogCheckpointing.enabled", "false")
    spark.conf.set(f"{STATE_STORE}.compactOnCommit", "true")
    stream_load.write(root, operations=60, keys=keys, pending=pending, batches=2)
    query = start(spark, root, settled)
    query.awaitTermination()
    last = query.recentProgress[-1]
    return sum(int(operator.customMetrics["rocksdbSstFileSize"]) for operator in last.stateOperators) / pending


def warm_up(spark: SparkSession, slow_rows: int) -> None:
    """Until nobody pays for the compilation of Spark's own code."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        rows = stream_load.write(root / "load", operations=200_000, keys=1, pending=1_000, batches=WARM_UP_BATCHES)
        few = stream_load.write(root / "few", operations=slow_rows // 3, keys=1, pending=100, batches=2)
        for peer in (settled, joined):
            measure(spark, root / "load", rows, peer)
        measure(spark, root / "few", few, per_key)


def cpu_seconds() -> float:
    """Of Spark and all its workers."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(f"{STATE_STORE}.changelogCheckpointing.enabled", "true")
        .config(PROVIDER, ROCKSDB)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--pending", default="10000,100000,1000000")
    parser.add_argument("--batches", type=int, default=6, help="micro-batches the rows are cut into")
    parser.add_argument("--slow-rows", type=int, default=6_000, help="rows for the peer that takes a state call a row")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    asked = parser.parse_args(argv)
    part = 10 if asked.quick else 1
    spark = session()
    warm_up(spark, asked.slow_rows)
    print("rows a second, by the clock and by processor time")
    print(f"{'pending':>9} keys {'settle':>17} {'outer join':>17} {'ratio':>11} {'per key':>8}")
    first: Speed | None = None
    sizes = [int(size) // part for size in asked.pending.split(",")]
    for pending, keys in [*((size, 1) for size in sizes), (sizes[0], 3)]:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            rows = stream_load.write(
                root / "load",
                operations=asked.operations // part // keys,
                keys=keys,
                pending=pending,
                batches=asked.batches,
            )
            ours = measure(spark, root / "load", rows, settled)
            first = first or ours
            line = f"{pending:>9} {keys:>4} {ours}"
            if keys == 1:
                join = measure(spark, root / "load", rows, joined)
                few = stream_load.write(
                    root / "few", operations=asked.slow_rows // 3, keys=1, pending=min(pending, 10_000), batches=1
                )
                slow = measure(spark, root / "few", few, per_key)
                line += f" {join} {ours.wall / join.wall:>5.1f} {ours.cpu / join.cpu:>5.1f} {slow.wall:>8,.0f}"
            print(f"{line}   {ours.wall / first.wall:.0%} {ours.cpu / first.cpu:.0%} of the first line", flush=True)
    for keys in (1, 3):
        with tempfile.TemporaryDirectory() as name:
            size = footprint(spark, Path(name) / "load", 100_000 // part, keys)
            print(f"{size:.0f} bytes on disk for each pending operation with {keys} key{'s' * (keys > 1)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
