"""An input as a Spark frame with the contract's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from dwell.cli.inputs import files_of
from dwell.cli.output import is_local
from dwell.cli.text_file import CORRUPT, columns_of
from dwell.cli.text_value import TIME_OF_DAY
from dwell.spark import EVENTS, OPERATIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from dwell.cli.inputs import Input, Inputs

# Text stays text: what is no time or no number becomes null by our cast, and the row is rejected with a reason. Spark's
# own guess would make the whole column text instead. A quote within quotes is doubled, as the standard has it.
CSV_OPTIONS = {"header": "true", "inferSchema": "false", "escape": '"'}

# JSON as the standard has it.
JSON_OPTIONS = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}

# Formats whose options say where to read.
NO_PATH = ("kafka", "jdbc", "rate", "rate-micro-batch", "socket")


def read_tables(spark: SparkSession, inputs: Inputs) -> tuple[DataFrame, DataFrame]:
    return (
        operations_of(_read(spark, inputs.operations), inputs.operations, inputs.within_ms),
        events_of(_read(spark, inputs.events), inputs.events),
    )


def _read(spark: SparkSession, source: Input) -> DataFrame:
    if source.format == "table":
        return shaped(spark, spark.table(source.path), source)
    if source.format == "csv" and is_local(source.path) and not set(source.options) - {"sep"}:
        columns_of(files_of(source.path), source.options.get("sep", ","))
    return read_files(spark, source, places(source))


def read_files(spark: SparkSession, source: Input, paths: list[str]) -> DataFrame:
    reader = spark.read.format(source.format).options(**reader_options(source))
    if is_json_as_text(source):
        schema = json_schema(spark, source, paths)
        return sound_lines(reader.schema(with_corrupt(schema)).load(paths), schema)
    return shaped(spark, reader.load(paths) if paths else reader.load(), source)


def is_json_as_text(source: Input) -> bool:
    """Whether our columns are read as text. A query on the command line gets the types that Spark finds."""
    return source.format == "json" and source.sql is None


def json_schema(spark: SparkSession, source: Input, paths: list[str]) -> T.StructType:
    """The columns of JSON lines, ours as text: Spark's own guess fails where one line has a number and one has text.

    Of names that differ in case only, Spark can hold one: ours, or else the first.
    """
    was = spark.conf.get("spark.sql.caseSensitive")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        found = spark.read.format("json").options(**reader_options(source)).load(paths).schema
    finally:
        spark.conf.set("spark.sql.caseSensitive", str(was))
    ours = {source.columns.get(name, name) for name in source.wanted}
    kept: dict[str, T.StructField] = {}
    for field in sorted(found, key=lambda field: (field.name not in ours, field.name)):
        kept.setdefault(field.name.lower(), field)
    fields = sorted(kept.values(), key=lambda field: field.name)
    return T.StructType([T.StructField(f.name, T.StringType()) if f.name in ours else f for f in fields])


def with_corrupt(schema: T.StructType) -> T.StructType:
    return schema if CORRUPT in schema.names else T.StructType([*schema.fields, T.StructField(CORRUPT, T.StringType())])


def sound_lines(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The columns of `schema`. Of a line that is no JSON all but `_corrupt_record` are null: Spark keeps some."""
    is_sound = F.col(_quoted(CORRUPT)).isNull()
    return frame.select(
        *(
            F.col(_quoted(name)) if name == CORRUPT else F.when(is_sound, F.col(_quoted(name))).alias(name)
            for name in schema.names
        )
    )


def reader_options(source: Input) -> dict[str, str]:
    """What the format wants by itself, and what the command line says of it. Kafka's path is its topic."""
    by_itself = {"csv": CSV_OPTIONS, "json": JSON_OPTIONS, "kafka": {"subscribe": source.path}}
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
    # A quorum of 2^31 and more is a quorum out of range, not one that was not given.
    wanted = T.LongType() if field.name == "quorum" else field.dataType
    if theirs is None:
        return F.lit(None).cast(wanted).alias(field.name)
    column, kind = F.col(_quoted(theirs)), frame.schema[theirs].dataType
    if field.name == "needs":
        column = _needs(column, kind)
    elif isinstance(kind, T.StringType) and isinstance(wanted, T.TimestampType):
        column = F.when(~column.rlike(TIME_OF_DAY), column.try_cast(wanted))
    elif isinstance(kind, T.StringType) and not isinstance(wanted, T.StringType):
        column = column.try_cast(wanted)
    elif isinstance(kind, T.IntegralType) and isinstance(wanted, (T.StringType, T.LongType)):
        column = column.cast(wanted)
    return column.alias(field.name)


def _needs(column: Column, kind: T.DataType) -> Column:
    """Lists of keys or of structs, JSON and single keys as text: all become the contract's needs."""
    if isinstance(kind, T.StringType):
        return needs_of_text(column)
    if not isinstance(kind, T.ArrayType):
        return column
    each = kind.elementType
    if isinstance(each, (T.StringType, T.IntegralType)):
        return F.transform(column, lambda key: _need(key.cast("string")))
    if not isinstance(each, T.StructType) or "key" not in each.names:
        return column
    types = {name: each[name].dataType for name in each.names}
    if not isinstance(types["key"], (T.StringType, T.IntegralType)):
        return column
    if "level" not in types:
        return F.transform(column, lambda need: _need(need["key"].cast("string")))
    if not isinstance(types["level"], (T.StringType, T.IntegralType)):
        return column
    return _with_levels(F.transform(column, lambda need: _need(need["key"].cast("string"), need["level"])))


def needs_of_text(column: Column) -> Column:
    """One key, or a JSON list: of keys, or of objects with `key` and perhaps `level`. `text_value.needs` says the same.

    What a list holds is first taken as text, each by itself, so that one bad element does not void the others.
    """
    each = F.from_json(column, "array<string>", JSON_OPTIONS)
    object_ = "struct<key: string, level: string>"

    def need(one: Column) -> Column:
        return F.when(one.startswith("{"), F.from_json(one, object_, JSON_OPTIONS)).otherwise(
            _need(one, F.lit(None).cast("string"))
        )

    listed = _with_levels(F.transform(each, need))
    return F.when(F.ltrim(column).startswith("["), listed).when(column.isNotNull(), F.array(_need(column)))


def _with_levels(needs: Column) -> Column:
    """Levels as numbers. Null if one cannot be read: without its level a need would be another one."""
    read = F.transform(needs, lambda need: _need(need["key"], need["level"].try_cast("bigint")))
    unread = F.exists(needs, lambda need: need["level"].isNotNull() & need["level"].try_cast("bigint").isNull())
    return F.when(~F.coalesce(unread, F.lit(False)), read)


def _need(key: Column, level: Column | None = None) -> Column:
    return F.struct(key.alias("key"), (F.lit(None).cast("bigint") if level is None else level).alias("level"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
