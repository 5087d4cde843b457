"""Settling streams on Spark: rows a second with 10 k, 100 k and 1 M operations pending, and with three keys each.

    python -m benchmarks.bench_stream [--operations 200000] [--pending 10000,100000,1000000] [--quick]

The same files go, one of each kind a micro-batch, through

    settle        dwell
    outer join    Spark's own: a left outer join of two streams, repeats dropped, in event time
    per key       transformWithState keyed by the watch key, one timer an operation, rows as they come

and each is asked for the time its micro-batches took, after one that brings what is pending. A need and an event are one
row each. Settle counts every row twice in its favour nowhere: rows are those read. The peers do less: they know neither
levels, nor several keys, nor late rows, and are silent when their inputs are. `state` is what the checkpoint's newest
snapshot holds a pending operation.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks import stream_load
from dwell.spark import SettleOptions, settle
from dwell.spark.stream.plan import PROVIDER, ROCKSDB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

LATENESS = "1 second"
BATCHES = 6

Peer = "Callable[[DataFrame, DataFrame], DataFrame]"


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
    return met.dropDuplicates(["op_id", "submitted_at"]).select("op_id", "submitted_at", "at", "key")


class PerKey(StatefulProcessor):
    """One operation a key, one timer an operation, as one would write it first."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._wait = handle.getValueState("wait", "op_id string, submitted bigint, deadline bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002
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

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002
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


def measure(spark: SparkSession, root: Path, rows: int, peer: Callable[[DataFrame, DataFrame], DataFrame]) -> float:
    """Rows a second."""

    def stream(name: str) -> DataFrame:
        schema = spark.read.parquet(str(root / name)).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / name))

    out = root / peer.__name__
    writer = peer(stream("operations"), stream("events")).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(out / "checkpoint")).format("parquet")
    query = writer.option("path", str(out / "outcomes")).start()
    query.awaitTermination()
    # Not the first batch, which brings what is pending; with the batches that only pass deadlines.
    spent = sum(progress.durationMs["triggerExecution"] for progress in query.recentProgress if progress.batchId > 0)
    return rows / spent * 1000


def state_bytes(root: Path) -> int:
    state = root / "settled" / "checkpoint" / "state"
    return sum(path.stat().st_size for path in state.rglob("*") if path.suffix in {".zip", ".changelog", ".sst"})


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config(PROVIDER, ROCKSDB)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--pending", default="10000,100000,1000000")
    parser.add_argument("--slow-rows", type=int, default=6_000, help="rows for the peer that takes a state call a row")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    asked = parser.parse_args()
    part = 10 if asked.quick else 1
    spark = session()
    print(f"{'pending':>9} {'keys':>4} {'settle':>9} {'outer join':>10} {'ratio':>6} {'per key':>8}   rows/s")
    base: float | None = None
    for pending, keys in [*((int(p), 1) for p in asked.pending.split(",")), (int(asked.pending.split(",")[0]), 3)]:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            rows = stream_load.write(
                root / "load", operations=asked.operations // part, keys=keys, pending=pending // part, batches=BATCHES
            )
            ours = measure(spark, root / "load", rows, settled)
            base = base or ours
            line = f"{pending // part:>9} {keys:>4} {ours:>9,.0f}"
            if keys == 1:
                join = measure(spark, root / "load", rows, joined)
                line += f" {join:>10,.0f} {ours / join:>6.1f}"
                small = root / "small"
                few = stream_load.write(
                    small, operations=asked.slow_rows // 3, keys=1, pending=min(pending // part, 10_000), batches=1
                )
                line += f" {measure(spark, small, few, per_key):>8,.0f}"
            print(line + f"   {ours / base:.0%} of the first line")
            shutil.rmtree(root / "load")
    spark.stop()


if __name__ == "__main__":
    main()
