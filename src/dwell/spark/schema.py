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

from pyspark.sql import functions as F
from pyspark.sql import types as T

from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger.reason import MAX_MS, MIN_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

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
    """`op_id, submitted_ms, delay_ms, needs, quorum, volume`, and `extra`: a struct of all other columns, if any.

    `needs` is sorted (key before level, nulls first), `quorum` is a bigint.
    """
    at = _places(frame, OPERATIONS, "operations")
    extras = extra_names(frame)
    taken = {name.lower() for name in OUTCOMES.names}
    for name in extras:
        if name.lower() in taken:
            raise InvalidArgument(f"operations has a column {name!r} that would clash with the outcome's: rename it")
    own = frame.toDF(*(f"_{i}" for i in range(len(frame.columns))))
    types = frame.schema
    needs = _needs(at["needs"], types[at["needs"]].dataType)
    columns = [
        _text(at["op_id"]).alias("op_id"),
        millis(F.col(f"_{at['submitted_at']}"), types[at["submitted_at"]].dataType).alias("submitted_ms"),
        _bigint(at["delay_ms"]).alias("delay_ms"),
        F.when(F.size(needs) > 1, F.sort_array(needs)).otherwise(needs).alias("needs"),
        _bigint(at["quorum"]).alias("quorum"),
        _bigint(at["volume"]).alias("volume"),
    ]
    if extras:
        places = [i for i, name in enumerate(frame.columns) if name not in OPERATIONS.names]
        columns.append(F.struct(*(F.col(f"_{i}").alias(f"_{i}") for i in places)).alias("extra"))
    return own.select(*columns)


def extra_names(operations: DataFrame) -> list[str]:
    """The columns that pass through to the outcome, in their order: the fields of `extra`."""
    return [name for name in operations.columns if name not in OPERATIONS.names]


def plain_events(frame: DataFrame, *, keep: bool = False) -> DataFrame:
    """`key, at_ms, level`; with `keep`, these as one struct `plain` beside the columns given as another, `given`."""
    at = _places(frame, EVENTS, "events")
    own = frame.toDF(*(f"_{i}" for i in range(len(frame.columns))))
    columns = (
        _text(at["key"]).alias("key"),
        millis(F.col(f"_{at['at']}"), frame.schema[at["at"]].dataType).alias("at_ms"),
        _unforeseen(_bigint(at["level"]), _text(at["key"])).alias("level"),
    )
    if keep:
        return own.select(F.struct(*own.columns).alias("given"), F.struct(*columns).alias("plain"))
    return own.select(*columns)


def _unforeseen(level: Column, key: Column) -> Column:
    """The level, in a form whose value Spark cannot know before it runs.

    Events without levels are often given a literal null. From that Spark 4.3 concludes that no volume is ever reached,
    prunes the plan of volumes, and then misses a column there (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND).
    """
    return F.when(F.length(key) < 0, F.lit(0).cast("bigint")).otherwise(level)


def millis(time: Column, kind: T.DataType) -> Column:
    """A timestamp of that kind as milliseconds since 1970, cut towards the past; timestamp_ntz is read as UTC."""
    if not isinstance(kind, T.TimestampNTZType):
        return F.unix_millis(time.cast(T.TimestampType()))
    # A cast to timestamp would go through the session's time zone; the fields of a timestamp_ntz do not.
    days = F.unix_date(time.cast(T.DateType())).cast(T.LongType())
    seconds = F.hour(time) * 3600 + F.minute(time) * 60 + F.extract(F.lit("SECOND"), time)
    return days * 86_400_000 + F.floor(seconds * 1000).cast(T.LongType())


def in_range(millis: Column) -> Column:
    """Whether a time lies in the years 1 to 9999; null for null."""
    return millis.between(MIN_MS, MAX_MS)


def timestamp(millis: Column) -> Column:
    """Milliseconds since 1970 as a timestamp."""
    return F.timestamp_millis(millis)


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


def _text(place: int) -> Column:
    return F.col(f"_{place}").cast(T.StringType())


def _bigint(place: int) -> Column:
    return F.col(f"_{place}").cast(T.LongType())


def _needs(place: int, kind: T.DataType) -> Column:
    column = F.col(f"_{place}")
    if kind.simpleString() == NEEDS.simpleString():
        return column
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StructType):
        # By name, whatever their order: a cast of structs goes by position.
        column = F.arrays_zip(column["key"], column["level"])
    return column.cast(NEEDS)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "no columns"
