"""From needs that are met to outcomes: one shuffle by op_id, one sort, two passes over the sorted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from dwell.ledger.reason import Reason
from dwell.spark.fault import has_no_op_id, text
from dwell.spark.schema import timestamp

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Later than all times, earlier than all when negated.
NEVER = 2**62

ANY, ALL, SOME = 1, -1, 0


def outcomes(met: DataFrame) -> DataFrame:
    """Operations as `told` takes them, from the needs of `met`."""
    rows = _first(_condition(met))
    extra = ["row.extra"] if "extra" in rows.select("row.*").columns else []
    return rows.select(
        "op_id",
        "submitted_ms",
        "row.delay_ms",
        "reason",
        *extra,
        F.col("done.ms").alias("done_ms"),
        F.col("done.key").alias("done_by"),
    )


def done_ms(met_ms: Column, submitted: Column) -> Column:
    return F.greatest(F.coalesce(met_ms, F.lit(NEVER)), submitted)


def _condition(met: DataFrame) -> DataFrame:
    """One row an operation, with `done`: when its condition held first, and by which key."""
    wait = F.col("wait")
    rows = met.select(
        F.xxhash64(wait["op_id"]).alias("hash"),
        wait["op_id"].alias("op_id"),
        wait["tag"].alias("tag"),
        wait["rule"].alias("rule"),
        wait["submitted_ms"].alias("submitted_ms"),
        wait["row"].alias("row"),
        F.struct(
            done_ms(F.col("met_ms"), wait["submitted_ms"]).alias("ms"),
            F.col("key").alias("key"),
        ).alias("met"),
    ).repartition("hash", "op_id")
    ordered = Window.partitionBy("hash", "op_id", "tag").orderBy(F.col("row").isNull())
    whole = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    signed = F.struct((F.col("rule") * F.col("met.ms")).alias("ms"), F.col("met.key").alias("key"))
    return (
        rows.select(
            "*",
            F.row_number().over(ordered).alias("nth"),
            F.min(F.when(F.col("rule") != SOME, signed)).over(whole).alias("best"),
            F.collect_set(F.when(F.col("rule") == SOME, F.col("met"))).over(whole).alias("each"),
        )
        .where((F.col("nth") == 1) | has_no_op_id())
        .select(
            "hash",
            "op_id",
            "tag",
            "submitted_ms",
            "row",
            F.when(F.col("rule") == SOME, _nth("each", F.col("row.quorum")))
            .otherwise(F.struct((F.col("rule") * F.col("best.ms")).alias("ms"), F.col("best.key").alias("key")))
            .alias("done"),
        )
    )


def _nth(each: str, quorum: Column) -> Column:
    ordered = F.sort_array(each)
    last = F.get(ordered, quorum.cast("int") - 1)["ms"]
    return F.get(F.filter(ordered, lambda one: one["ms"] == last), F.lit(0))


def _first(rows: DataFrame) -> DataFrame:
    """Sets `reason`: the row's own fault, or that another content was there first under its op_id."""
    single = F.array(F.struct(F.col("done.key").alias("key"), F.col("row.level").alias("level")))
    needs = F.coalesce("row.needs", single)
    content = F.struct("submitted_ms", "row.delay_ms", needs, "row.quorum", "row.volume")
    first = F.min(F.when(F.col("row.fault").isNull(), content)).over(Window.partitionBy("hash", "op_id"))
    return rows.select("*", first.alias("first")).select(
        "op_id",
        "submitted_ms",
        "row",
        "done",
        F.when(F.col("row.fault").isNotNull(), F.col("row.fault"))
        .when(~content.eqNullSafe(F.col("first")), text(Reason.CONTENT_DIFFERS, F.col("op_id")))
        .alias("reason"),
    )


def told(rows: DataFrame, as_of_ms: int | None) -> DataFrame:
    """The outcome of `op_id, submitted_ms, delay_ms, done_ms, done_by, reason`, and `extra` if there."""
    done, submitted, sound = F.col("done_ms"), F.col("submitted_ms"), F.col("reason").isNull()
    deadline = submitted + F.col("delay_ms")
    horizon = deadline if as_of_ms is None else F.least(deadline, F.lit(as_of_ms))
    kind = F.when(~sound, "rejected").when(done <= horizon, "completed")
    kind = (
        kind.otherwise("expired")
        if as_of_ms is None
        else kind.when(deadline <= as_of_ms, "expired").otherwise("pending")
    )
    rows = rows.withColumn("outcome", kind)
    finished = F.when(F.col("outcome") == "completed", done).when(F.col("outcome") == "expired", deadline)
    return rows.withColumn("finished_ms", finished).select(
        "op_id",
        "outcome",
        timestamp(F.col("finished_ms")).alias("finished_at"),
        (F.col("finished_ms") - submitted).alias("waited_ms"),
        F.when(F.col("outcome") == "completed", F.col("done_by")).alias("completed_by"),
        "reason",
        *(["extra"] if "extra" in rows.columns else []),
    )
