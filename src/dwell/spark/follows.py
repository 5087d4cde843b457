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

from pyspark.sql import types as T

from dwell.contract.time_range import MAX_MS, MIN_MS
from dwell.errors import InvalidArgument, InvalidType
from dwell.spark.met import SIGNAL, beside, met
from dwell.spark.schema import by_place, in_range, millis, struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

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
    asked = _rows(a, "a", names, times[0]).selectExpr("*", f"{_limit(a, within)} as limit_ms", "at_ms as asked_ms")
    answers = _rows(b, "b", names, times[1]).drop("given").where("key is not null and at_ms is not null")
    answered = _bracketed(asked, answers) if once else _first(asked, answers)
    waited = "if(met_ms - asked_ms <= limit_ms, met_ms - asked_ms, null) as waited"
    return (
        answered.selectExpr("*", waited)
        .selectExpr(
            "given.*",
            "waited is not null as followed",
            "timestamp_millis(if(waited is null, null, met_ms)) as followed_at",
            "waited",
        )
        .toDF(*a.columns, *ADDED)
    )


def _first(asked: DataFrame, answers: DataFrame) -> DataFrame:
    walk = f"{SIGNAL} as walk"
    needs = asked.selectExpr("* except (at_ms)", walk, "at_ms as mark")
    return met(beside(needs, answers.selectExpr("*", walk, "at_ms as mark")))


def _bracketed(asked: DataFrame, answers: DataFrame) -> DataFrame:
    rows = beside(asked.selectExpr("*", "false as closes"), answers.selectExpr("*", "true as closes"))
    by_time = "partition by hash, key order by at_ms, closes rows between unbounded preceding and"
    # A closing row that finds nothing open makes a new minimum: from there depth is counted.
    depth = f"sum - least(min(sum) over ({by_time} 1 preceding), 0) + if(closes, 1, 0) as depth"
    at_depth = "partition by hash, key, depth order by at_ms, closes"
    return (
        rows.selectExpr("*", "xxhash64(key) as hash")
        .selectExpr("*", f"sum(if(closes, -1, 1)) over ({by_time} current row) as sum")
        .selectExpr("*", depth)
        .selectExpr("*", f"lead(if(closes, at_ms, null)) over ({at_depth}) as met_ms")
        .where("not closes")
    )


def _rows(frame: DataFrame, what: str, on: list[str], at: str) -> DataFrame:
    """`key` (null if any part is), `at_ms`, and the columns given as one struct, `given`."""
    place = _place(frame, what, at)
    kind = frame.schema[place].dataType
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        raise InvalidType(f"{what} needs a timestamp in column {at!r}; it is of type {kind.simpleString()}")
    parts = [f"_{_place(frame, what, name)}" for name in on]
    known = " and ".join(f"{part} is not null" for part in parts)
    key = ", ".join(f"{part} as _{i}" for i, part in enumerate(parts))
    at_ms = millis(place, frame.schema)
    return by_place(frame).selectExpr(
        f"if({known}, struct({key}), null) as key",
        f"if({in_range(at_ms)}, {at_ms}, null) as at_ms",
        f"{struct(range(len(frame.columns)))} as given",
    )


def _limit(a: DataFrame, within: timedelta | int | str) -> str:
    if isinstance(within, timedelta):
        within = within // timedelta(milliseconds=1)
    if isinstance(within, bool) or not isinstance(within, (int, str)):
        raise InvalidType(f"within must be a timedelta, milliseconds or a column's name, not {within!r}")
    if isinstance(within, int):
        if within < 0:
            raise InvalidArgument(f"within must not be negative: {within}")
        # Nothing lies further apart than all time; a greater number may not be one of Spark's.
        return f"{min(within, MAX_MS - MIN_MS)}L"
    place = _place(a, "a", within)
    kind = a.schema[place].dataType
    if not isinstance(kind, (T.ByteType, T.ShortType, T.IntegerType, T.LongType)):
        raise InvalidType(f"a needs milliseconds in column {within!r}; it is of type {kind.simpleString()}")
    return f"cast(given._{place} as bigint)"


def _place(frame: DataFrame, what: str, name: str) -> int:
    found = [i for i, column in enumerate(frame.columns) if column == name]
    if len(found) != 1:
        has = "no column" if not found else f"{len(found)} columns"
        raise InvalidArgument(f"{what} has {has} {name!r}; it has {', '.join(map(repr, frame.columns))}")
    return found[0]
