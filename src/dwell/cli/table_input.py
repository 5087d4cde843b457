"""An input as a Spark frame with the contract's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from dwell.spark import EVENTS, OPERATIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from dwell.cli.inputs import Input, Inputs

# Text stays text: what is no time or no number becomes null by our cast, and the row is rejected with a reason. Spark's
# own guess would make the whole column text instead.
CSV_OPTIONS = {"header": "true", "inferSchema": "false"}

# Formats whose options say where to read.
NO_PATH = ("kafka", "jdbc", "rate", "rate-micro-batch", "socket")


def read_tables(spark: SparkSession, inputs: Inputs) -> tuple[DataFrame, DataFrame]:
    return (
        operations_of(_read(spark, inputs.operations), inputs.operations, inputs.within_ms),
        events_of(_read(spark, inputs.events), inputs.events),
    )


def _read(spark: SparkSession, source: Input) -> DataFrame:
    if source.format == "table":
        frame = spark.table(source.path)
    else:
        frame = spark.read.format(source.format).options(**reader_options(source)).load(*places(source))
    return shaped(spark, frame, source)


def reader_options(source: Input) -> dict[str, str]:
    """What the format wants by itself, and what the command line says of it. Kafka's path is its topic."""
    by_itself = {"csv": CSV_OPTIONS, "kafka": {"subscribe": source.path}}
    return by_itself.get(source.format, {}) | source.options


def places(source: Input) -> list[str]:
    """What the reader loads: nothing where the options say it all."""
    return [] if source.format in NO_PATH else [source.path]


def shaped(spark: SparkSession, frame: DataFrame, source: Input) -> DataFrame:
    """What the query given on the command line makes of the frame, if there is one."""
    if source.sql is None:
        return frame
    frame.createOrReplaceTempView("input")
    return spark.sql(source.sql)


def operations_of(frame: DataFrame, source: Input, within_ms: int | None) -> DataFrame:
    places = source.places(frame.columns, given=[] if within_ms is None else ["delay_ms"])
    columns = [_column(frame, places.get(field.name), field) for field in OPERATIONS if field.name != "delay_ms"]
    if within_ms is None:
        columns.append(_column(frame, places["delay_ms"], OPERATIONS["delay_ms"]))
    else:
        columns.append(F.lit(within_ms).cast("bigint").alias("delay_ms"))
    extras = [F.col(_quoted(name)) for name in frame.columns if name not in {*places.values(), *OPERATIONS.names}]
    return frame.select(*columns, *extras)


def events_of(frame: DataFrame, source: Input) -> DataFrame:
    places = source.places(frame.columns)
    columns = [_column(frame, places[name], EVENTS[name]) for name in ("key", "at")]
    columns.append(_column(frame, places.get("level"), EVENTS["level"]))
    return frame.select(*columns)


def _column(frame: DataFrame, theirs: str | None, field: T.StructField) -> Column:
    if theirs is None:
        return F.lit(None).cast(field.dataType).alias(field.name)
    column, kind = F.col(_quoted(theirs)), frame.schema[theirs].dataType
    if field.name == "needs":
        column = _needs(column, kind)
    elif isinstance(kind, T.StringType) and not isinstance(field.dataType, T.StringType):
        column = column.try_cast(field.dataType)
    elif isinstance(field.dataType, T.StringType) and isinstance(kind, T.NumericType):
        column = column.cast("string")
    return column.alias(field.name)


def _needs(column: Column, kind: T.DataType) -> Column:
    """Lists of keys, of structs without a level, JSON and single keys as text: all become the contract's needs."""
    wanted = OPERATIONS["needs"].dataType
    if isinstance(kind, T.StringType):
        parsed = F.from_json(column, wanted.simpleString())
        return F.when(F.ltrim(column).startswith("["), parsed).when(column.isNotNull(), F.array(_need(column)))
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StringType):
        return F.transform(column, _need)
    if (
        isinstance(kind, T.ArrayType)
        and isinstance(kind.elementType, T.StructType)
        and kind.elementType.names == ["key"]
    ):
        return F.transform(column, lambda need: _need(need["key"]))
    return column


def _need(key: Column) -> Column:
    return F.struct(key.alias("key"), F.lit(None).cast("bigint").alias("level"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
