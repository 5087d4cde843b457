"""Operations made ready to be settled: judged by themselves, and told apart by their content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.ledger.reason import MAX_MS, MIN_MS
from dwell.spark.fault import fault

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def waits(operations: DataFrame) -> DataFrame:
    """One row for each row of `plain_operations`: `op_id, tag, submitted_ms, deadline_ms, needs, row`.

    `tag` is a 64-bit hash of the content: rows of one op_id with the same tag are repeats of each other. `row` is
    everything that is asked once an operation and not once a need: its content, its own fault, its extra columns.
    A faulty operation gets one need nobody asks about, on a key of its own, so that it travels like the others.
    """
    judged = judge(operations)
    sound = F.col("fault").isNull()
    nobody = F.struct(F.col("tag").cast("string").alias("key"), F.get("needs", F.lit(0))["level"].alias("level"))
    deadline = F.col("submitted_ms") + F.least("delay_ms", F.lit(MAX_MS - MIN_MS))
    # A single need is known where its row goes; only several have to be carried to be compared.
    several = F.when(F.size("needs") > 1, F.col("needs"))
    single = F.when(F.size("needs") == 1, F.get("needs", F.lit(0))["level"])
    extra = ["extra"] if "extra" in operations.columns else []
    return judged.select(
        "op_id",
        "tag",
        "submitted_ms",
        F.when(sound, deadline).alias("deadline_ms"),
        F.when(sound, F.col("needs")).otherwise(F.array(nobody)).alias("needs"),
        F.struct("delay_ms", several.alias("needs"), single.alias("level"), "quorum", "volume", "fault", *extra).alias(
            "row"
        ),
    )


def judge(operations: DataFrame) -> DataFrame:
    """`plain_operations` with `fault` and `tag`."""
    content = F.struct("submitted_ms", "delay_ms", "needs", "quorum", "volume")
    # The hash skips nulls. In a sound row that is harmless: a key precedes each level, 0 is no quorum and no volume.
    exact = F.xxhash64("submitted_ms", "delay_ms", "needs", _or_zero("quorum"), _or_zero("volume"))
    tag = F.when(F.col("fault").isNull(), exact).otherwise(F.xxhash64(F.to_json(content)))
    return operations.withColumn("fault", fault()).withColumn("tag", tag)


def _or_zero(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0))
