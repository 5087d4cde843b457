"""Operations with one need, where no op_id comes twice: settled right at their key, in one shuffle and one sort.

Whatever else is said of an operation is known from its own row, so nothing has to be brought together by op_id. Whether
any op_id comes twice is asked first, by a count of 64-bit hashes: two that collide cost time, not truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.spark.fault import fault, has_no_op_id
from dwell.spark.met import asked, mark, met, only, walk_of, walking
from dwell.spark.outcome import done_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def some_op_id_twice(operations: DataFrame) -> Column:
    """Whether two rows name the same operation, as a subquery."""
    # Brought together first: to count before the shuffle is in vain where all differ.
    hashes = operations.where(~has_no_op_id()).select(F.xxhash64("op_id").alias("hash")).repartition("hash")
    return hashes.groupBy("hash").count().agg(F.coalesce(F.max("count") > 1, F.lit(False))).scalar()


def alone(operations: DataFrame, events: DataFrame) -> DataFrame:
    """`told` can tell the rest: `op_id, submitted_ms, delay_ms, done_ms, done_by, reason` and `extra`, if there.

    `operations` are `plain_operations` with one need at most, those with none being faulty.
    """
    return met(_needs(operations), only(walking(events), asked(operations))).select(
        "wait.*", done_ms(F.col("met_ms"), F.col("wait.submitted_ms")).alias("done_ms"), F.col("key").alias("done_by")
    )


def _needs(operations: DataFrame) -> DataFrame:
    need, sound = F.get("needs", F.lit(0)), F.col("reason").isNull()
    extra = ["extra"] if "extra" in operations.columns else []
    # Nobody asks about a faulty row: it only needs a place to go, not the same one for all.
    nowhere = F.xxhash64("op_id", "submitted_ms", "delay_ms").cast("string")
    return operations.withColumn("reason", fault(several=False)).select(
        F.when(sound, need["key"]).otherwise(nowhere).alias("key"),
        walk_of(need["level"]).alias("walk"),
        F.when(sound, mark(need["level"], F.col("submitted_ms"), F.col("volume"))).alias("mark"),
        F.struct("op_id", "submitted_ms", "delay_ms", "reason", *extra).alias("wait"),
    )
