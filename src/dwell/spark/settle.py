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
from dwell.spark.alone import alone
from dwell.spark.met import LEVEL, MARK, SIGNAL, WALK, beside, met, walking
from dwell.spark.options import SettleOptions
from dwell.spark.outcome import outcomes, told
from dwell.spark.schema import OUTCOMES, extra_names, in_range, plain_events, plain_operations
from dwell.spark.stream.plan import settle_stream
from dwell.spark.volume import volume_met
from dwell.spark.wait import waits
from dwell.spark.way import SEVERAL, only, ways

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WAIT = (
    "op_id",
    "tag",
    "least",
    "submitted_ms",
    "if(nth = 0, row, null) as row",
    "if(nth = 0, extra, null) as extra",
)

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
    if not extras:
        return settled.drop("extra")
    return settled.select(*OUTCOMES.names, "extra.*").toDF(*OUTCOMES.names, *extras)


def settle_plain(operations: DataFrame, events: DataFrame, *, as_of_ms: int | None) -> DataFrame:
    """The same on `plain_operations` and `plain_events`; `extra` stays as it is."""
    happened = walking(events.where(f"key is not null and {in_range('at_ms')}"))
    taken = ways(operations)
    several, summed = F.expr(SEVERAL), F.expr(f"{SEVERAL} and volume is not null")
    single = alone(operations.where(~several), happened, taken.alone)
    simple = _needs(operations.where((several | taken.twice) & ~summed))
    sums = _volume_needs(operations.where(summed))
    grouped = outcomes(
        met(only(beside(simple, happened), taken.together)),
        volume_met(only(beside(sums, happened), taken.summed)),
    )
    return told(single.union(grouped), as_of_ms)


def _needs(operations: DataFrame) -> DataFrame:
    """A row for each need. What belongs to the operation as a whole travels with its first need."""
    least = "coalesce(row.quorum, size(needs)) as least"
    each = waits(operations).selectExpr("*", "row.volume", least, "posexplode_outer(needs) as (nth, need)")
    return each.selectExpr("need.key", f"{WALK} as walk", f"{MARK} as mark", *_WAIT)


def _volume_needs(operations: DataFrame) -> DataFrame:
    each = waits(operations).selectExpr("*", "1L as least", "posexplode_outer(needs) as (nth, need)")
    # All are on one walk, but Spark must not know that beforehand.
    walk = f"if(nth < 0, {SIGNAL}, {LEVEL}) as walk"
    wait = f"struct({', '.join(_WAIT)}) as wait"
    return each.selectExpr("need.key", walk, f"struct(need.level, deadline_ms, row.volume, {wait}) as need")


def _as_of_ms(as_of: datetime | None) -> int | None:
    if as_of is None:
        return None
    if not isinstance(as_of, datetime):
        raise InvalidType(f"as_of must be a datetime, not {type(as_of).__name__}")
    aware = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
