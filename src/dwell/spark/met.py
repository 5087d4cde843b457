"""When is each need met? One shuffle by key, one sort, one running minimum.

Levels never fall, so the first time a key is at level L or above is the smallest time among all its events of level L
or above. Sort a key's events and needs together by level, greatest first, and that is a running minimum:

    level    9        7      5         4      2
    event    at 60           at 40            at 10
    need              7?               4?
    minimum  60       60     40        40     10         7 is met at 60, 4 is met at 40

A signal asks for the first event at or after a moment. That is the same walk with the time in place of the level. So
each row goes to one of two walks of its key, and an event with a level may go to both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SIGNAL, LEVEL = 0, 1


def met(needs: DataFrame, events: DataFrame) -> DataFrame:
    """`needs` with `met_ms` in place of `walk, mark`: when the need is first met, or null.

    `needs` is `key, walk, mark, wait`, the mark being the least level (walk LEVEL) or the least time (walk SIGNAL)
    that meets it; a null mark is never met. `events` is `key, walk, mark, at_ms`.
    """
    no_wait = F.lit(None).cast(needs.schema["wait"].dataType)
    asked = needs.select(*_place(), "mark", F.lit(None).cast("bigint").alias("at_ms"), "wait")
    happened = events.select(*_place(), "mark", "at_ms", no_wait.alias("wait"))
    walk = Window.partitionBy("hash", "key", "walk").orderBy(F.desc("mark"))
    # By range, not by rows: an event at the need's own mark meets it.
    so_far = walk.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    first = F.min("at_ms").over(so_far)
    return (
        asked.unionByName(happened)
        .withColumn("met_ms", F.when(F.col("mark").isNotNull(), first))
        .where(F.col("wait").isNotNull())
        .select("key", "met_ms", "wait")
    )


def _place() -> list[Column]:
    # Sorting compares eight bytes before all else: a hash tells keys apart where "customer-17…" does not.
    return [F.xxhash64("key").alias("hash"), F.col("key"), F.col("walk")]
