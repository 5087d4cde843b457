"""The columns in and out, and how a caller's frame is brought to the form the engines work on.

A caller's frame must have the columns of `OPERATIONS` or `EVENTS`, by exact name, in any order. These types are taken
for what they hold, everything else is an error that names the column, what was expected and what was found:

    expected     taken as well
    string       any collation, char, varchar; compared by its bytes
    bigint, int  tinyint, smallint, int, bigint
    timestamp    timestamp_ntz, read as UTC
    any          void (nothing but nulls)

Inside, times are milliseconds since 1970 as bigint, cut down to the millisecond. Thus neither the session's time zone
nor the kind of timestamp makes a difference. Columns are taken by position and given names of our own at once, so
`spark.sql.caseSensitive` makes none either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T

from dwell.contract.time_range import MAX_MS, MIN_MS
from dwell.errors import InvalidArgument, InvalidType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

NEEDS: Final = T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("level", T.LongType())]))

OPERATIONS: Final = T.StructType(
    [
        T.StructField("op_id", T.StringType()),
        T.StructField("submitted_at", T.TimestampType()),
        T.StructField("delay_ms", T.LongType()),
        T.StructField("needs", NEEDS),
        T.StructField("quorum", T.IntegerType()),
        T.StructField("volume", T.LongType()),
    ]
)

EVENTS: Final = T.StructType(
    [
        T.StructField("key", T.StringType()),
        T.StructField("at", T.TimestampType()),
        T.StructField("level", T.LongType()),
    ]
)

OUTCOMES: Final = T.StructType(
    [
        T.StructField("op_id", T.StringType()),
        T.StructField("outcome", T.StringType()),
        T.StructField("finished_at", T.TimestampType()),
        T.StructField("waited_ms", T.LongType()),
        T.StructField("completed_by", T.StringType()),
        T.StructField("reason", T.StringType()),
    ]
)

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_TIMES = (T.TimestampType, T.TimestampNTZType)


def plain_operations(frame: DataFrame) -> DataFrame:
    """`op_id, submitted_ms, delay_ms, needs, quorum, volume, extra`, the last a struct of all other columns, if any.

    `quorum` is a bigint.
    """
    at = _places(frame, OPERATIONS, "operations")
    taken = {name.lower() for name in OUTCOMES.names}
    for name in extra_names(frame):
        if name.lower() in taken:
            raise InvalidArgument(f"operations has a column {name!r} that would clash with the outcome's: rename it")
    places = [i for i, name in enumerate(frame.columns) if name not in OPERATIONS.names]
    return by_place(frame).selectExpr(
        f"{_text(at['op_id'])} as op_id",
        f"{millis(at['submitted_at'], frame.schema)} as submitted_ms",
        f"{_bigint(at['delay_ms'])} as delay_ms",
        f"{_needs(at['needs'], frame.schema)} as needs",
        f"{_bigint(at['quorum'])} as quorum",
        f"{_bigint(at['volume'])} as volume",
        f"{struct(places) if places else 'null'} as extra",
    )


def extra_names(operations: DataFrame) -> list[str]:
    """The columns that pass through to the outcome, in their order: the fields of `extra`."""
    return [name for name in operations.columns if name not in OPERATIONS.names]


def plain_events(frame: DataFrame, *, keep: bool = False) -> DataFrame:
    """`key, at_ms, level`; with `keep`, these as one struct `plain` beside the columns given as another, `given`."""
    at = _places(frame, EVENTS, "events")
    key = _text(at["key"])
    columns = [
        f"{key} as key",
        f"{millis(at['at'], frame.schema)} as at_ms",
        f"{_unforeseen(_bigint(at['level']), key)} as level",
    ]
    if keep:
        columns = [f"{struct(range(len(frame.columns)))} as given", f"struct({', '.join(columns)}) as plain"]
    return by_place(frame).selectExpr(*columns)


def _unforeseen(level: str, key: str) -> str:
    """The level, in a form whose value Spark cannot know before it runs.

    Events without levels are often given a literal null. From that Spark 4.3 concludes that no volume is ever reached,
    prunes the plan of volumes, and then misses a column there (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND).
    """
    return f"if(octet_length({key}) < 0, 0, {level})"


def millis(place: int, types: T.StructType) -> str:
    """A timestamp as milliseconds since 1970, cut towards the past; timestamp_ntz is read as UTC."""
    time = f"_{place}"
    if not isinstance(types[place].dataType, T.TimestampNTZType):
        return f"unix_millis(cast({time} as timestamp_ltz))"
    # A cast to timestamp would go through the session's time zone; the fields of a timestamp_ntz do not.
    seconds = f"hour({time}) * 3600 + minute({time}) * 60 + extract(second from {time})"
    return f"unix_date(cast({time} as date)) * 86400000L + cast(floor(({seconds}) * 1000) as bigint)"


def in_range(millis: str) -> str:
    """Whether a time lies in the years 1 to 9999; null for null."""
    return f"({millis} between {MIN_MS} and {MAX_MS})"


def _places(frame: DataFrame, expected: T.StructType, what: str) -> dict[str, int]:
    """Where each expected column stands; raises for the first that is missing, doubled or of a wrong type."""
    places = {}
    for field in expected:
        found = [i for i, name in enumerate(frame.columns) if name == field.name]
        wanted = f"{what} needs a column {field.name!r} of type {field.dataType.simpleString()}"
        if not found:
            raise InvalidArgument(f"{wanted}; it has {_listed(frame.columns)}")
        if len(found) > 1:
            raise InvalidArgument(f"{wanted}; it has {len(found)} of that name")
        kind = frame.schema[found[0]].dataType
        if not _fits(kind, field.dataType):
            raise InvalidType(f"{wanted}; it is of type {kind.simpleString()}")
        places[field.name] = found[0]
    return places


def _fits(kind: T.DataType, wanted: T.DataType) -> bool:
    if isinstance(kind, T.NullType):
        return True
    if isinstance(wanted, T.StringType):
        return isinstance(kind, (T.StringType, T.CharType, T.VarcharType))
    if isinstance(wanted, T.TimestampType):
        return isinstance(kind, _TIMES)
    if isinstance(wanted, _INTEGERS):
        return isinstance(kind, _INTEGERS)
    if isinstance(wanted, T.ArrayType):
        return isinstance(kind, T.ArrayType) and _fits(kind.elementType, wanted.elementType)
    if isinstance(wanted, T.StructType):
        return (
            isinstance(kind, T.StructType)
            and sorted(kind.names) == sorted(wanted.names)
            and all(_fits(kind[name].dataType, wanted[name].dataType) for name in wanted.names)
        )
    return False


def by_place(frame: DataFrame) -> DataFrame:
    """The columns named `_0`, `_1` and so on: no name a caller chose is part of an expression."""
    return frame.toDF(*(f"_{i}" for i in range(len(frame.columns))))


def struct(places: Iterable[int]) -> str:
    return f"struct({', '.join(f'_{place}' for place in places)})"


def _text(place: int) -> str:
    return f"cast(_{place} as string)"


def _bigint(place: int) -> str:
    return f"cast(_{place} as bigint)"


def _needs(place: int, types: T.StructType) -> str:
    column, kind = f"_{place}", types[place].dataType
    if kind.simpleString() == NEEDS.simpleString():
        return column
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StructType):
        # By name, whatever their order: a cast of structs goes by position.
        column = f"arrays_zip({column}.key, {column}.level)"
    return f"cast({column} as {NEEDS.simpleString()})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "no columns"
