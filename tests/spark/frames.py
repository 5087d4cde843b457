"""The library's values as Spark rows and back: times in milliseconds, also beyond Python's calendar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from dwell.spark import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from dwell.ledger import Event, Wait

_OPERATIONS = (
    "op_id string, submitted_at bigint, delay_ms bigint, needs array<struct<key string, level bigint>>, "
    "quorum bigint, volume bigint, history int"
)


def operations(spark: SparkSession, waits: Iterable[Wait]) -> DataFrame:
    return many_operations(spark, [(0, wait) for wait in waits]).drop("history")


def many_operations(spark: SparkSession, waits: Iterable[tuple[int, Wait]]) -> DataFrame:
    """Operations with the number of their history as an extra column."""
    rows = [(w.op_id, w.submitted_at_ms, w.delay_ms, w.needs, w.quorum, w.volume, number) for number, w in waits]
    frame = spark.createDataFrame(rows, _OPERATIONS, verifySchema=False)
    return frame.withColumn("submitted_at", F.timestamp_millis("submitted_at"))


def events(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    frame = spark.createDataFrame(list(map(tuple, events)), "key string, at bigint, level bigint", verifySchema=False)
    return frame.withColumn("at", F.timestamp_millis("at"))


def outcomes(settled: DataFrame) -> list[tuple[Any, ...]]:
    """The columns of an outcome with the time in milliseconds, sorted."""
    rows = settled.withColumn("finished_at", F.unix_millis("finished_at")).select(*OUTCOMES.names).collect()
    return sorted((tuple(row) for row in rows), key=repr)


def with_extra(settled: DataFrame) -> list[tuple[Any, ...]]:
    """The same in any order, with the fields of `extra` behind."""
    rows = settled.withColumn("finished_at", F.unix_millis("finished_at"))
    return [tuple(row) for row in rows.select(*OUTCOMES.names, "extra.*").collect()]
