"""One outcome for each operation, from two tables.

    operations ── judged ── one row a need ─┐
                                            ├─ by key: when is it met? ─┐
    events ─────────────────────────────────┤                           ├─ by op_id: outcomes
                                            └─ volume over several keys ┘

Two shuffles and two sorts whatever the rule, and three more for operations that ask for a volume over several keys; if
there are none, nothing is shuffled for them. Everything is lazy: the first action on the result runs it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.errors import InvalidArgument, InvalidType
from dwell.spark.met import LEVEL, SIGNAL, met
from dwell.spark.options import SettleOptions
from dwell.spark.outcome import ALL, ANY, SOME, outcomes
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
    summed = F.coalesce(F.col("volume").isNotNull() & (F.size("needs") > 1), F.lit(False))
    # Which rules there are at all, found out by a subquery at run time: events go only where somebody waits for them.
    levels = F.col("needs.level")
    rules = operations.agg(
        F.struct(
            F.bool_or(~summed & F.get(F.sort_array(levels), F.lit(0)).isNull()).alias("signal"),
            F.bool_or(~summed & F.array_max(levels).isNotNull()).alias("level"),
            F.bool_or(summed).alias("volume"),
        )
    ).scalar()
    simple = met(_needs(operations.where(~summed)), _events(events, rules))
    volume_events = events.where(F.col("level").isNotNull() & rules["volume"])
    volume = volume_met(_volume_needs(operations.where(summed)), volume_events)
    return outcomes(simple.unionByName(volume), as_of_ms=as_of_ms)


def _needs(operations: DataFrame) -> DataFrame:
    """A row for each need. What belongs to the operation as a whole travels with its first need."""
    count = F.size("needs")
    quorum = F.coalesce("row.quorum", count)
    rule = F.when(quorum == 1, ANY).when(quorum == count, ALL).otherwise(SOME)
    each = waits(operations).select("*", rule.alias("rule"), F.posexplode_outer("needs").alias("nth", "need"))
    level = F.col("need.level")
    return each.select(
        F.col("need.key").alias("key"),
        F.when(level.isNull(), SIGNAL).otherwise(LEVEL).alias("walk"),
        # A volume over one key is a level of that key; beyond 64 bits (null) it is never reached.
        F.when(level.isNull(), F.col("submitted_ms"))
        .when(F.col("row.volume").isNotNull(), F.try_add(level, "row.volume"))
        .otherwise(level)
        .alias("mark"),
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


def _events(events: DataFrame, rules: Column) -> DataFrame:
    """Each event once for each walk it can matter to."""
    walks = F.array(F.when(rules["signal"], SIGNAL), F.when(rules["level"] & F.col("level").isNotNull(), LEVEL))
    each = events.select("*", F.explode_outer(walks).alias("walk")).where(F.col("walk").isNotNull())
    mark = F.when(F.col("walk") == SIGNAL, F.col("at_ms")).otherwise(F.col("level"))
    return each.select("key", "walk", mark.alias("mark"), "at_ms")


def _as_of_ms(as_of: datetime | None) -> int | None:
    if as_of is None:
        return None
    if not isinstance(as_of, datetime):
        raise InvalidType(f"as_of must be a datetime, not {type(as_of).__name__}")
    aware = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
