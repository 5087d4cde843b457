"""A settlement as a program of its own, to be killed: `python -m tests.spark.stream.job ROOT SINK [MASTER]`.

Settles what is in ROOT/in, one file of each kind a micro-batch, and exits. SINK is `parquet`, or `batches`: each
micro-batch is written under its id, as `foreachBatch` advises.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dwell.spark import SettleOptions, settle
from dwell.spark.stream.plan import PROVIDER, ROCKSDB
from tests.spark.stream.feed import Feed

OPTIONS = SettleOptions(lateness=timedelta(milliseconds=5), shards=4, idle_after=None, remember=timedelta(days=1))


def main(root: Path, sink: str, master: str = "local[2]") -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(PROVIDER, ROCKSDB)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def save(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(root / "outcomes" / f"batch={batch_id}"))

    writer = settle(*Feed(root / "in").read(spark), options=OPTIONS).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    if sink == "parquet":
        writer = writer.format("parquet").option("path", str(root / "outcomes"))
    else:
        writer = writer.foreachBatch(save)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
