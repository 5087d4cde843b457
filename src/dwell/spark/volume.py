"""When has enough come in, over several keys together?

The levels of an operation's keys rise step by step, and so does the sum of what they are above the needs. The steps of
each key are numbered; the steps that matter to an operation are then a range of numbers for each of its keys:

    submitted            end
        |                 |
    --1-|---2------3------|---4---  key a: steps 1 to 3, step 1 being where a stood at submission
    ----|-------1-----2---|------3  key b: steps 0 to 2, step 0 being "no event yet"

The end is the deadline or, if earlier, the moment that key alone is far enough. Each operation meets exactly the steps
in its ranges, by equality of key and number, and a running sum in the order of time finds the moment.

The cost is the number of those (operation, key, step) triples: an operation pays for the steps its keys take between
its submission and its end, and for nothing before or after. A key with many steps is spread, since the number of the
step is part of where a row goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

_SUM = "decimal(38,0)"


def volume_met(needs: DataFrame, events: DataFrame) -> DataFrame:
    """One row an operation in the form of `met`: when the sum reached the volume, and which key brought it there.

    `needs` is `key, level, deadline_ms, volume, wait`, `events` is `key, at_ms, level`, all with a level.
    """
    return _reached(_steps(_numbered(needs, events)))


def _numbered(needs: DataFrame, events: DataFrame) -> DataFrame:
    """Needs with their range of steps, `from_step` to `to_step`, and the events that are steps; a shuffle by key."""
    asked = F.struct("level", "deadline_ms", "volume", "wait")
    rows = needs.select(
        "key",
        F.col("wait.submitted_ms").alias("at_ms"),
        F.lit(None).cast("bigint").alias("level"),
        F.try_add("level", "volume").alias("alone"),
        asked.alias("need"),
    )
    nobody = F.lit(None).cast(rows.schema["need"].dataType)
    both = rows.unionByName(events.select("key", "at_ms", "level", F.col("level").alias("alone"), nobody.alias("need")))
    is_need = F.col("need").isNotNull()
    hashed = both.withColumn("hash", F.xxhash64("key"))

    # In the order of time, the greatest of an instant first: a step is an event above all before it.
    earlier = _by(F.col("at_ms"), F.desc("level")).rowsBetween(Window.unboundedPreceding, -1)
    stepped = hashed.withColumn("before", F.max("level").over(earlier)).where(
        is_need | F.col("before").isNull() | (F.col("level") > F.col("before"))
    )
    counted = stepped.withColumn("from_step", F.count("level").over(_up_to(_by(F.col("at_ms")))))

    # In the order of levels, the greatest first: when is this key alone far enough?
    first = F.min(F.when(~is_need, F.col("at_ms"))).over(_up_to(_by(F.desc("alone"))))
    ended = counted.withColumn("enough", F.when(is_need & F.col("alone").isNotNull(), first))
    enough = F.when(F.col("enough").isNotNull(), F.greatest("at_ms", "enough"))
    until = F.when(is_need, F.least("need.deadline_ms", enough)).otherwise(F.col("at_ms"))
    return ended.withColumn("until", until).withColumn("to_step", F.count("level").over(_up_to(_by(F.col("until")))))


def _steps(rows: DataFrame) -> DataFrame:
    """A row for each step from `from_step` to `to_step` with what it adds; the first stands for all before it."""
    is_need = F.col("need").isNotNull()
    numbers = F.when(is_need, F.sequence("from_step", F.greatest("from_step", "to_step"))).otherwise(
        F.array("from_step")
    )
    # Said aloud, for the rows lie by key already, and a key with many steps would stay with one task.
    each = rows.select("*", F.posexplode_outer(numbers).alias("nth", "step")).repartition("hash", "key", "step")
    taken = F.max(F.when(~is_need, F.struct("at_ms", "level", "before")))
    met = (
        each.select("*", taken.over(Window.partitionBy("hash", "key", "step")).alias("taken"))
        .where(is_need)
        .select("key", "step", "nth", "taken", "need.*")
    )
    before = F.when(F.col("nth") > 0, _above("taken.before")).otherwise(0)
    return met.select(
        "key",
        "step",
        "volume",
        F.col("wait.op_id").alias("op_id"),
        F.col("wait.tag").alias("tag"),
        F.when(F.col("nth") == 0, F.col("wait")).alias("wait"),
        F.col("taken.at_ms").alias("rose_ms"),
        F.greatest("taken.at_ms", "wait.submitted_ms").alias("at_ms"),
        (F.col("taken.level") > F.col("level")).alias("counts"),
        (_above("taken.level") - before).cast(_SUM).alias("more"),
    )


def _reached(rows: DataFrame) -> DataFrame:
    by_time = Window.partitionBy("op_id", "tag").orderBy("at_ms", "key", "step")
    whole = by_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    here, last = F.struct("key", "step"), F.struct(F.lag("key").over(by_time), F.lag("step").over(by_time))
    latest = F.struct((-F.col("rose_ms")).alias("ms"), F.col("key").alias("key"))
    # The steps of an operation that comes twice stand side by side, and count once.
    return (
        rows.withColumn("more", F.when(here.eqNullSafe(last), 0).otherwise(F.col("more")).cast(_SUM))
        .withColumn("sum", F.sum("more").over(so_far))
        .withColumn("met_ms", F.min(F.when(F.col("sum") >= F.col("volume"), F.col("at_ms"))).over(whole))
        .withColumn("by", F.min(F.when(F.col("counts") & (F.col("at_ms") <= F.col("met_ms")), latest)).over(whole))
        .where(F.col("wait").isNotNull())
        .select(F.col("by.key").alias("key"), "met_ms", "wait")
    )


def _above(level: str) -> Column:
    """How far a level is above the need's; exact, since the difference of two bigints may need 65 bits."""
    above = F.col(level).cast("decimal(20,0)") - F.col("level").cast("decimal(20,0)")
    return F.greatest(F.coalesce(above, F.lit(0)), F.lit(0))


def _by(*order: Column) -> WindowSpec:
    return Window.partitionBy("hash", "key").orderBy(*order)


def _up_to(order: WindowSpec) -> WindowSpec:
    return order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
