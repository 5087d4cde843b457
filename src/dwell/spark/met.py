"""When is each need met? One shuffle by key, one sort, one running minimum.

Levels never fall, so the first time a key is at level L or above is the smallest time among all its events of level L
or above. Sort a key's events and needs together by level, greatest first, and that is a running minimum:

    level    9        7      5         4      2
    event    at 60           at 40            at 10
    need              7?               4?
    minimum  60       60     40        40     10         7 is met at 60, 4 is met at 40

A signal asks for the first event at or after a moment. That is the same walk with the time in place of the level. So
each row goes to one of two walks of its key, and an event with a level may go to both.

Events are sent only to the walks that some need is in: `asked` finds those out first. Where it finds none, Spark's
adaptive planner drops all that would follow, the reading of the inputs included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SIGNAL, LEVEL = 0, 1


def asked(operations: DataFrame) -> DataFrame:
    """`walk`: those of the two that some need of `plain_operations` is in."""
    levels = operations.select(F.explode_outer("needs.level").alias("level"))
    return levels.select(walk_of(F.col("level")).alias("walk")).distinct()


def walk_of(level: Column) -> Column:
    return F.when(level.isNull(), SIGNAL).otherwise(LEVEL)


def mark(level: Column, submitted: Column, volume: Column) -> Column:
    """From where on a need is met. A volume over one key is a level; beyond 64 bits (null) it is never reached."""
    return F.when(level.isNull(), submitted).when(volume.isNotNull(), F.try_add(level, volume)).otherwise(level)


def only(rows: DataFrame, asked: DataFrame) -> DataFrame:
    """The rows of the walks that are asked for.

    Their walk must come from an explode: with a walk known beforehand, as of literal rows, Spark 4.3 plans a nested
    loop, or loses a column.
    """
    return rows.join(F.broadcast(asked), "walk", "left_semi")


def walking(events: DataFrame) -> DataFrame:
    """`key, walk, mark, at_ms`: each event once for each walk it can matter to."""
    walks = F.when(F.col("level").isNull(), F.array(F.lit(SIGNAL))).otherwise(F.array(F.lit(SIGNAL), F.lit(LEVEL)))
    each = events.select("*", F.explode(walks).alias("walk"))
    own = F.when(F.col("walk") == SIGNAL, F.col("at_ms")).otherwise(F.col("level"))
    return each.select("key", "walk", own.alias("mark"), "at_ms")


def met(needs: DataFrame, events: DataFrame) -> DataFrame:
    """`needs` with `met_ms` in place of `walk, mark`: when the need is first met, or null.

    `needs` is `key, walk, mark, wait`, the mark being the least level (walk LEVEL) or the least time (walk SIGNAL)
    that meets it; a null mark is never met. `events` is `key, walk, mark, at_ms`.
    """
    no_wait = F.lit(None).cast(needs.schema["wait"].dataType)
    waiting = needs.select(_place(), "key", "mark", F.lit(None).cast("bigint").alias("at_ms"), "wait")
    happened = events.select(_place(), "key", "mark", "at_ms", no_wait.alias("wait"))
    # An event at the need's own mark meets it, so events come first; needs have no time here.
    walk = Window.partitionBy("place", "key").orderBy(F.desc("mark"), F.asc_nulls_last("at_ms"))
    first = F.min("at_ms").over(walk.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return (
        waiting.unionByName(happened)
        .withColumn("met_ms", F.when(F.col("mark").isNotNull(), first))
        .where(F.col("wait").isNotNull())
        .select("key", "met_ms", "wait")
    )


def _place() -> Column:
    """Key and walk in one number. Sorting compares eight bytes before all else: a hash tells "customer-17…" apart."""
    return F.xxhash64("key").bitwiseAND(F.lit(-2)).bitwiseOR(F.col("walk")).alias("place")
