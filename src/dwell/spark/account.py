"""Small frames for whoever has to trust the numbers: the ledger identity, and the events that were set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.spark.fault import has_no_op_id
from dwell.spark.schema import in_range, plain_events, plain_operations
from dwell.spark.wait import waits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("completed", "expired", "rejected", "pending")


def identity(operations: DataFrame, outcomes: DataFrame) -> DataFrame:
    """One row: `rows, repeats, operations, completed, expired, rejected, pending, balanced`.

    `operations` is counted from the input (`rows` less exact `repeats`), the four kinds from what `settle` made of it;
    `balanced` says that the four add up to it.
    """
    named = F.struct("op_id", "tag")
    came = waits(plain_operations(operations)).agg(
        F.struct(
            F.count("*").alias("rows"),
            (F.count_distinct(F.when(~has_no_op_id(), named)) + F.count_if(has_no_op_id())).alias("operations"),
        )
    )
    kinds = [F.count_if(F.col("outcome") == kind).alias(kind) for kind in KINDS]
    counted = outcomes.agg(*kinds).withColumn("came", came.scalar())
    total = F.col("completed") + F.col("expired") + F.col("rejected") + F.col("pending")
    return counted.select(
        "came.rows",
        (F.col("came.rows") - F.col("came.operations")).alias("repeats"),
        "came.operations",
        *KINDS,
        (F.col("came.operations") == total).alias("balanced"),
    )


def set_aside(events: DataFrame) -> DataFrame:
    """The events `settle` does not look at, with all their columns, and why as the last column, `set_aside`."""
    key, at_ms = F.col("plain.key"), F.col("plain.at_ms")
    names = [*events.columns, "set_aside"]
    why = (
        F.when(key.isNull(), "key is null")
        .when(at_ms.isNull(), "at is null")
        .when(~in_range(at_ms), F.concat(F.lit("at is out of range: "), at_ms.cast("string")))
    )
    return plain_events(events, keep=True).select("given.*", why.alias("why")).where("why is not null").toDF(*names)
