"""The library's values as Spark rows and back: times to the millisecond, beyond Python's calendar where need be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from dwell.spark import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from dwell.ledger import Event, Wait

Row = tuple[str | None, str, int | None, int | None, str | None, str | None]

_OPERATIONS = (
    "op_id string, submitted_at bigint, delay_ms bigint, needs array<struct<key string, level bigint>>, \
quorum int, volume bigint, history int"
)


def operations(spark: SparkSession, waits: Iterable[Wait], history: int = 0) -> DataFrame:
    return many_operations(spark, [(history, wait) for wait in waits]).drop("history")


def events(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    rows = [(e.key, e.at_ms, e.level) for e in events]
    frame = spark.createDataFrame(rows, "key string, at bigint, level bigint", verifySchema=False)
    return frame.withColumn("at", F.timestamp_millis("at"))


def many_operations(spark: SparkSession, waits: Iterable[tuple[int, Wait]]) -> DataFrame:
    """Operations with the number of their history as an extra column."""
    rows = [
        (w.op_id, w.submitted_at_ms, w.delay_ms, _needs(w), w.quorum, w.volume, number) for number, w in waits
    ]
    frame = spark.createDataFrame(rows, _OPERATIONS, verifySchema=False)
    return frame.withColumn("submitted_at", F.timestamp_millis("submitted_at"))


def _needs(wait: Wait) -> list[tuple[str | None, int | None] | None] | None:
    if wait.needs is None:
        return None
    return [None if need is None else (need.key, need.level) for need in wait.needs]


def outcomes(frame: DataFrame) -> list[Row]:
    """Outcome rows with the time in milliseconds, sorted."""
    assert [f.dataType for f in frame.schema][: len(schema.OUTCOMES)] == [f.dataType for f in schema.OUTCOMES]
    assert isinstance(frame.schema["finished_at"].dataType, T.TimestampType)
    rows = (
        frame.withColumn("finished_at", F.unix_millis("finished_at")).select(*schema.OUTCOMES.names).collect()
    )
    return sorted((tuple(row) for row in rows), key=repr)
