"""A settlement as a program of its own, to be killed: `python -m tests.spark.stream.job ROOT`.

Settles what is in ROOT/in, one file of each kind a micro-batch, twice at the same time, and exits: into Parquet, and by
`foreachBatch`, where each micro-batch is written under its id. A query that fails, because its Python workers were
killed, is started again.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from dwell.spark import SettleOptions, settle
from dwell.spark.stream.plan import PROVIDER, ROCKSDB
from tests.spark.quick import QUICK_START
from tests.spark.stream.feed import Feed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

OPTIONS = SettleOptions(lateness=timedelta(milliseconds=5), shards=4, idle_after=None, remember=timedelta(days=1))

SINKS = ("parquet", "batches")

# How often a query may fail before it is not the killer's doing.
FAILURES = 20


def session(master: str, more: dict[str, str] | None = None) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, str | int | float | bool | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
        PROVIDER: ROCKSDB,
        **(more or {}),
    }
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def start(spark: SparkSession, root: Path, sink: str) -> StreamingQuery:
    """Its checkpoint and outcomes are in ROOT/SINK."""

    def save(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(root / sink / "outcomes" / f"batch={batch_id}"))

    writer = settle(*Feed(root / "in").read(spark), options=OPTIONS).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(root / sink / "checkpoint"))
    if sink == "parquet":
        return writer.format("parquet").option("path", str(root / sink / "outcomes")).start()
    return writer.foreachBatch(save).start()


def main(root: Path) -> None:
    spark = session("local[2]")
    queries = [(sink, start(spark, root, sink)) for sink in SINKS]
    failures = 0
    while queries:
        sink, query = queries.pop()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            failures += 1
            if failures == FAILURES:
                raise
            queries.append((sink, start(spark, root, sink)))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
