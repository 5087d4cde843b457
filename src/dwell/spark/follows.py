"""Did B happen within T after A? The common question, asked of two frames as they are.

Each A may be answered by a B that answers others too, or (`once`) each B answers one A. Then A's and B's of a key pair
up like brackets: a B closes the latest A that is still open. Counting how many are open gives each row its depth, and
at one depth opening and closing take turns:

    time     1  2  3  4  5  6
    row      A  A  B  A  B  B
    depth 1  (              )      A at 1 is answered at 6
    depth 2     (  )  (  )         A at 2 at 3, A at 4 at 5
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dwell.errors import InvalidArgument, InvalidType
from dwell.spark.met import SIGNAL, met
from dwell.spark.schema import in_range, millis, timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

ADDED = ("followed", "followed_at", "waited_ms")


def follows(
    a: DataFrame,
    b: DataFrame,
    *,
    on: str | Sequence[str],
    within: timedelta | int | str,
    at: str | tuple[str, str] = "at",
    once: bool = False,
) -> DataFrame:
    """All rows and columns of `a`, and whether, when and after how long a row of `b` with the same key followed.

    `on` names the key column or columns, in both frames. `within` is a duration, milliseconds, or the name of a column
    of `a` with milliseconds; the limit itself is within. `at` names the time column (two names, if `a` and `b` differ).
    Added are `followed` (boolean), `followed_at` and `waited_ms`, the latter two null if nothing followed.

    By default the first `b` at or after the row counts, and one `b` may answer many rows. With `once` each `b` answers
    the latest row of `a` at or before it that no earlier `b` answered; if that is longer ago than `within`, it answers
    none. Among rows of `a` with the same key and time it is not said which is the latest.

    A row with a null in its key or time, or a null or negative `within`, is followed by nothing.
    """
    names = [on] if isinstance(on, str) else list(on)
    times = (at, at) if isinstance(at, str) else at
    if not names:
        raise InvalidArgument("on must name at least one column")
    for taken in ADDED:
        if taken in (name.lower() for name in a.columns):
            raise InvalidArgument(f"a has a column {taken!r}, which follows adds: rename it")
    asked = _rows(a, "a", names, times[0])
    limit = _limit(a, within)
    asked = asked.select("key", "at_ms", F.struct("given", limit.alias("limit"), "at_ms").alias("wait"))
    answers = _rows(b, "b", names, times[1]).where("key is not null and at_ms is not null")
    answered = _bracketed(asked, answers) if once else _first(asked, answers)
    waited = F.col("met_ms") - F.col("wait.at_ms")
    return (
        answered.withColumn("waited", F.when(waited <= F.col("wait.limit"), waited))
        .select(
            "wait.given.*",
            F.col("waited").isNotNull().alias(ADDED[0]),
            timestamp(F.when(F.col("waited").isNotNull(), F.col("met_ms"))).alias(ADDED[1]),
            F.col("waited").alias(ADDED[2]),
        )
        .toDF(*a.columns, *ADDED)
    )


def _first(asked: DataFrame, answers: DataFrame) -> DataFrame:
    walk = F.lit(SIGNAL).alias("walk")
    return met(
        asked.select("key", walk, F.col("at_ms").alias("mark"), "wait"),
        answers.select("key", walk, F.col("at_ms").alias("mark"), "at_ms"),
    )


def _bracketed(asked: DataFrame, answers: DataFrame) -> DataFrame:
    no_wait = F.lit(None).cast(asked.schema["wait"].dataType).alias("wait")
    both = asked.select(F.xxhash64("key").alias("hash"), "key", "at_ms", F.lit(False).alias("closes"), "wait")
    both = both.unionByName(
        answers.select(F.xxhash64("key").alias("hash"), "key", "at_ms", F.lit(True).alias("closes"), no_wait)
    )
    by_time = Window.partitionBy("hash", "key").orderBy("at_ms", "closes")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    step = F.when(F.col("closes"), -1).otherwise(1)
    # A closing row that finds nothing open makes a new minimum: from there depth is counted.
    least = F.least(F.min("sum").over(before), F.lit(0))
    depth = F.col("sum") - least + F.when(F.col("closes"), 1).otherwise(0)
    at_depth = Window.partitionBy("hash", "key", "depth").orderBy("at_ms", "closes")
    return (
        both.withColumn("sum", F.sum(step).over(so_far))
        .withColumn("depth", depth)
        .withColumn("met_ms", F.lead("at_ms").over(at_depth))
        .withColumn("closed", F.lead("closes").over(at_depth))
        .where(F.col("wait").isNotNull())
        .select("key", F.when(F.col("closed"), F.col("met_ms")).alias("met_ms"), "wait")
    )


def _rows(frame: DataFrame, what: str, on: list[str], at: str) -> DataFrame:
    """`key` (null if any part is), `at_ms`, and the columns given as one struct, `given`."""
    kind = frame.schema[_place(frame, what, at)].dataType
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        raise InvalidType(f"{what} needs a timestamp in column {at!r}; it is of type {kind.simpleString()}")
    own = frame.toDF(*(f"_{i}" for i in range(len(frame.columns))))
    parts = [F.col(f"_{_place(frame, what, name)}").alias(f"_{i}") for i, name in enumerate(on)]
    at_ms = millis(F.col(f"_{_place(frame, what, at)}"), kind)
    known = F.lit(True)
    for part in parts:
        known = known & part.isNotNull()
    return own.select(
        F.when(known, F.struct(*parts)).alias("key"),
        F.when(in_range(at_ms), at_ms).alias("at_ms"),
        F.struct(*own.columns).alias("given"),
    )


def _limit(a: DataFrame, within: timedelta | int | str) -> Column:
    if isinstance(within, timedelta):
        within = within // timedelta(milliseconds=1)
    if isinstance(within, bool) or not isinstance(within, (int, str)):
        raise InvalidType(f"within must be a timedelta, milliseconds or a column's name, not {within!r}")
    if isinstance(within, int):
        if within < 0:
            raise InvalidArgument(f"within must not be negative: {within}")
        return F.lit(within).cast("bigint")
    place = _place(a, "a", within)
    kind = a.schema[place].dataType
    if not isinstance(kind, (T.ByteType, T.ShortType, T.IntegerType, T.LongType)):
        raise InvalidType(f"a needs milliseconds in column {within!r}; it is of type {kind.simpleString()}")
    return F.col(f"given._{place}").cast("bigint")


def _place(frame: DataFrame, what: str, name: str) -> int:
    found = [i for i, column in enumerate(frame.columns) if column == name]
    if len(found) != 1:
        has = "no column" if not found else f"{len(found)} columns"
        raise InvalidArgument(f"{what} has {has} {name!r}; it has {', '.join(map(repr, frame.columns))}")
    return found[0]
