"""One outcome for each operation, from two tables.

    operations ─┬─ one need, no op_id twice ────── by key: when is it met? ──────────────────────────────┐
                ├─ other ──── a row for each need ─ by key: when is it met? ─┬─ by op_id: does it hold? ─┤
                └─ volume over several keys ─────── by key: when is it there? ┘                          │
                                                                                                 outcomes┘

The first way takes one shuffle and one sort, the second two, the third three more. Events go to each way that some
operation takes, and a way that none takes is not run. Everything is lazy: the first action on the result runs it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.errors import InvalidArgument, InvalidType
from dwell.spark.alone import alone, some_op_id_twice
from dwell.spark.met import LEVEL, asked, mark, met, only, walk_of, walking
from dwell.spark.options import SettleOptions
from dwell.spark.outcome import ALL, ANY, SOME, outcomes, told
from dwell.spark.schema import OUTCOMES, extra_names, in_range, plain_events, plain_operations
from dwell.spark.stream.plan import settle_stream
from dwell.spark.volume import volume_met
from dwell.spark.wait import waits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def settle(
    operations: DataFrame,
    events: DataFrame,
    *,
    as_of: datetime | None = None,
    options: SettleOptions | None = None,
) -> DataFrame:
    """The outcome of each operation: the columns of `OUTCOMES`, then the other columns of `operations`.

    Two streams give a stream, to be written in append mode: each outcome once, final, as soon as no row within the
    allowed lateness can change it. `options` says what is allowed.

    What is undecided at `as_of` (without a time zone: UTC) is `pending`; without `as_of` time runs on to the end.
    Of operations that repeat each other one row comes out, with the other columns of one of them.
    """
    if options is not None and not isinstance(options, SettleOptions):
        raise InvalidType(f"options must be SettleOptions, not {type(options).__name__}")
    if operations.isStreaming or events.isStreaming:
        if as_of is not None:
            raise InvalidArgument("as_of is for tables: a stream says what is decided as soon as it is")
        return settle_stream(operations, events, options or SettleOptions())
    settled = settle_plain(plain_operations(operations), plain_events(events), as_of_ms=_as_of_ms(as_of))
    extras = extra_names(operations)
    if extras:
        settled = settled.select(*OUTCOMES.names, "extra.*")
    return settled.toDF(*OUTCOMES.names, *extras)


def settle_plain(operations: DataFrame, events: DataFrame, *, as_of_ms: int | None) -> DataFrame:
    """The same on `plain_operations` and `plain_events`; `extra`, if there, stays a struct."""
    events = events.where(F.col("key").isNotNull() & in_range(F.col("at_ms")))
    several = F.coalesce(F.size("needs") > 1, F.lit(False))
    summed = several & F.col("volume").isNotNull()
    twice = some_op_id_twice(operations)
    single = alone(operations.where(~several & ~twice), events)
    other, sums = operations.where((several | twice) & ~summed), operations.where(summed)
    walks = asked(other)
    simple = met(only(_needs(other), walks), only(walking(events), walks))
    # Not asked of `sums`: where Spark 4.3 knows beforehand that there are none, as of literal rows, it loses a column.
    rises = operations.select(F.explode_outer(F.when(summed, F.array(F.lit(LEVEL)))).alias("walk")).distinct()
    levels = only(walking(events), rises).withColumnRenamed("mark", "level")
    grouped = outcomes(simple.unionByName(volume_met(_volume_needs(sums), levels)))
    return told(single.unionByName(grouped), as_of_ms)


def _needs(operations: DataFrame) -> DataFrame:
    """A row for each need. What belongs to the operation as a whole travels with its first need."""
    count = F.size("needs")
    quorum = F.coalesce("row.quorum", count)
    rule = F.when(quorum == 1, ANY).when(quorum == count, ALL).otherwise(SOME)
    each = waits(operations).select("*", rule.alias("rule"), F.posexplode_outer("needs").alias("nth", "need"))
    level = F.col("need.level")
    return each.select(
        F.col("need.key").alias("key"),
        walk_of(level).alias("walk"),
        mark(level, F.col("submitted_ms"), F.col("row.volume")).alias("mark"),
        _wait(F.col("rule")).alias("wait"),
    )


def _volume_needs(operations: DataFrame) -> DataFrame:
    each = waits(operations).select("*", F.posexplode_outer("needs").alias("nth", "need"))
    return each.select(
        F.col("need.key").alias("key"),
        F.col("need.level").alias("level"),
        "deadline_ms",
        F.col("row.volume").alias("volume"),
        _wait(F.lit(ANY)).alias("wait"),
    )


def _wait(rule: Column) -> Column:
    first = F.when(F.col("nth") == 0, F.col("row"))
    return F.struct("op_id", "tag", rule.alias("rule"), "submitted_ms", first.alias("row"))


def _as_of_ms(as_of: datetime | None) -> int | None:
    if as_of is None:
        return None
    if not isinstance(as_of, datetime):
        raise InvalidType(f"as_of must be a datetime, not {type(as_of).__name__}")
    aware = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
