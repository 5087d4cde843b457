"""When has enough come in, over several keys together?

The levels of an operation's keys rise step by step, and so does the sum of what they are above the needs. `rises`
numbers the steps of each key; the steps that matter to an operation are then a range of numbers for each of its keys:

    submitted            end
        |                 |
    --1-|---2------3------|---4---  key a: steps 1 to 3, step 1 being where a stood at submission
    ----|-------1-----2---|------3  key b: steps 0 to 2, step 0 being "no event yet"

The end is the deadline or, if earlier, the moment one key alone is far enough. Each operation meets exactly the steps
in its ranges, by an equi-join on key and number, and a running sum in the order of time finds the moment.

The cost is the number of those (operation, key, step) triples: an operation pays for the steps its keys take between
its submission and its end, and for nothing before or after. Keys with many steps are spread, since the step is part
of what is joined on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from dwell.spark.fault import has_no_op_id
from dwell.spark.met import LEVEL, met

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SUM = "decimal(38,0)"


def volume_met(needs: DataFrame, events: DataFrame) -> DataFrame:
    """One row an operation in the form of `met`: when the sum reached the volume, and which key brought it there.

    `needs` is `key, level, deadline_ms, volume, wait`, `events` is `key, at_ms, level`.
    """
    steps = rises(events)
    return _reached(_steps_of(_numbered(_ended(needs, steps), steps), steps))


def rises(events: DataFrame) -> DataFrame:
    """`key, step, at_ms, level, before`: the events that raised their key's level, numbered from 1, and from where."""
    levels = events.where(F.col("level").isNotNull()).select(F.xxhash64("key").alias("hash"), "key", "at_ms", "level")
    by_time = Window.partitionBy("hash", "key").orderBy("at_ms", F.desc("level"))
    earlier = by_time.rowsBetween(Window.unboundedPreceding, -1)
    risen = levels.withColumn("before", F.max("level").over(earlier)).where(
        F.col("before").isNull() | (F.col("level") > F.col("before"))
    )
    return risen.select("hash", "key", F.row_number().over(by_time).alias("step"), "at_ms", "level", "before")


def _ended(needs: DataFrame, steps: DataFrame) -> DataFrame:
    """Repeats left out, and `end_ms`: the deadline or the moment one key alone is far enough."""
    marks = needs.select(
        "key",
        F.lit(LEVEL).alias("walk"),
        F.try_add("level", "volume").alias("mark"),
        F.struct("wait", "level", "deadline_ms", "volume").alias("wait"),
    )
    alone = met(marks, steps.select("key", F.lit(LEVEL).alias("walk"), F.col("level").alias("mark"), "at_ms"))
    rows = alone.select("key", "met_ms", "wait.*").select("*", "wait.op_id", "wait.tag")
    by_key = Window.partitionBy("op_id", "tag").orderBy("key")
    whole = by_key.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # Null, and thus no bound, if no key gets there alone.
    in_time = F.when(F.col("met_ms").isNotNull(), F.greatest("wait.submitted_ms", "met_ms"))
    enough = F.min(in_time).over(whole)
    return (
        rows.select("*", enough.alias("enough"), F.lag("key").over(by_key).alias("last_key"))
        .where(has_no_op_id() | F.col("last_key").isNull() | (F.col("last_key") != F.col("key")))
        .select("key", "level", "volume", "wait", F.least("deadline_ms", "enough").alias("end_ms"))
    )


def _numbered(needs: DataFrame, steps: DataFrame) -> DataFrame:
    """`from_step`, the last step up to submission (0: none), and `to_step`, the last up to the end."""
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in needs.schema if field.name != "key"]
    taken = steps.select(
        "hash", "key", *nothing, F.col("at_ms").alias("from_ms"), F.col("at_ms").alias("to_ms"), "step"
    )
    asked = needs.select(
        F.xxhash64("key").alias("hash"),
        *needs.columns,
        F.col("wait.submitted_ms").alias("from_ms"),
        F.col("end_ms").alias("to_ms"),
        F.lit(0).alias("step"),
    )
    both = asked.unionByName(taken)
    for bound in ("from", "to"):
        by_time = Window.partitionBy("hash", "key").orderBy(f"{bound}_ms")
        so_far = by_time.rangeBetween(Window.unboundedPreceding, Window.currentRow)
        both = both.withColumn(f"{bound}_step", F.max("step").over(so_far))
    return both.where(F.col("wait").isNotNull()).select(*needs.columns, "from_step", "to_step")


def _steps_of(needs: DataFrame, steps: DataFrame) -> DataFrame:
    """A row for each step from `from_step` to `to_step` with what it adds; the first stands for all before it."""
    numbers = F.sequence("from_step", "to_step")
    each = needs.select("*", F.posexplode_outer(numbers).alias("nth", "step"))
    met = each.join(steps.withColumnRenamed("level", "risen"), ["key", "step"], "left")
    before = F.when(F.col("nth") > 0, _above("before")).otherwise(0)
    return met.select(
        "key",
        "volume",
        F.col("wait.op_id").alias("op_id"),
        F.col("wait.tag").alias("tag"),
        F.when(F.col("nth") == 0, F.col("wait")).alias("wait"),
        F.col("at_ms").alias("rose_ms"),
        F.greatest("at_ms", "wait.submitted_ms").alias("at_ms"),
        (F.col("risen") > F.col("level")).alias("counts"),
        (_above("risen") - before).cast(_SUM).alias("more"),
    )


def _above(level: str) -> Column:
    """How far a level is above the need's; exact, since the difference of two bigints may need 65 bits."""
    above = F.col(level).cast("decimal(20,0)") - F.col("level").cast("decimal(20,0)")
    return F.greatest(F.coalesce(above, F.lit(0)), F.lit(0))


def _reached(rows: DataFrame) -> DataFrame:
    by_time = Window.partitionBy("op_id", "tag").orderBy("at_ms")
    whole = by_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    enough = F.col("sum") >= F.col("volume")
    latest = F.struct((-F.col("rose_ms")).alias("ms"), F.col("key").alias("key"))
    return (
        rows.withColumn("sum", F.sum("more").over(so_far))
        .withColumn("met_ms", F.min(F.when(enough, F.col("at_ms"))).over(whole))
        .withColumn("by", F.min(F.when(F.col("counts") & (F.col("at_ms") <= F.col("met_ms")), latest)).over(whole))
        .where(F.col("wait").isNotNull())
        .select(F.col("by.key").alias("key"), "met_ms", "wait")
    )
