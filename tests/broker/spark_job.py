"""A Spark application that reads from and writes to Kafka; run by `test_spark.py` in a process of its own.

    spark_job.py BOOTSTRAP JARS FOLDER

Prints one JSON object: what each query counted.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROWS = 20_000


def main(bootstrap: str, jars: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def read(**options: str) -> DataFrame:
        return spark.read.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap} | options).load()

    counts = {}
    rows = spark.range(ROWS).select(F.col("id").cast("string").alias("key"), F.lit("x" * 100).alias("value"))
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", "batch").save()
    batch = read(subscribe="batch")
    counts["batch"] = batch.count()
    counts["keys"] = batch.select(F.col("key").cast("string")).distinct().count()
    ranged = read(
        subscribe="batch",
        startingOffsets=json.dumps({"batch": {"0": 10, "1": 20, "2": -2}}),
        endingOffsets=json.dumps({"batch": {"0": 110, "1": 220, "2": 330}}),
    )
    counts["ranged"] = ranged.count()
    counts["late"] = read(subscribe="timed", startingTimestamp="5000").count()

    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribePattern", "in-.*")
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", "1000")
        .load()
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "copied")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = read(subscribe="copied")
    counts["copied"] = copied.count()
    counts["copied keys"] = copied.select("key").distinct().count()
    counts["micro-batches"] = len(query.recentProgress)
    print(json.dumps(counts))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
