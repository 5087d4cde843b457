"""The streaming query: sources, packed to shards, through both stages, back to rows."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from dwell.contract.columns import COMPLETED, EXPIRED, REJECTED
from dwell.errors import InvalidArgument
from dwell.spark.schema import extra_names, in_range, plain_events, plain_operations
from dwell.spark.stream.operations import outcome_schema
from dwell.spark.stream.pack import OP_COLUMNS, PACKED, pack_beats, pack_events, pack_operations
from dwell.spark.stream.passing import field_names, nullable
from dwell.spark.stream.processor import LINK, NEWS, KeyProcessor, OperationProcessor
from dwell.spark.stream.terms import Terms
from dwell.spark.stream.unpack import BESIDE, LATE, OUTCOME, unpack
from dwell.spark.wait import judge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from dwell.spark.options import SettleOptions

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Spark's default, the one provider known to lack what `transformWithState` needs. Vendors name their RocksDB otherwise.
HDFS_BACKED = ".HDFSBackedStateStoreProvider"

# The figures of a micro-batch stand in its progress report under this and a number. A query may hold several
# settlements, and Spark wants another name for each.
METRICS = "dwell-"
_NUMBERS = count(1)


def settle_stream(operations: DataFrame, events: DataFrame, options: SettleOptions) -> DataFrame:
    """The outcomes as a stream, in append mode: each once, final, and as the table engine would say."""
    for name, frame in (("operations", operations), ("events", events)):
        if not frame.isStreaming:
            raise InvalidArgument(
                f"{name} is a table and the other input a stream: read both as streams, or both as tables"
            )
    spark = operations.sparkSession
    if str(spark.conf.get(PROVIDER)).endswith(HDFS_BACKED):
        raise InvalidArgument(f"streams need a RocksDB state store: set {PROVIDER} to {ROCKSDB}")
    if options.late_events and any(name.lower() == "late" for name in operations.columns):
        raise InvalidArgument("operations has a column 'late' that would clash with that of late events: rename it")
    terms = Terms.of(options)
    waits = _waits(operations)
    packed = waits.mapInArrow(pack_operations(terms.shards), PACKED).union(
        _events(events).mapInArrow(pack_events(terms.shards), PACKED)
    )
    # Also where silence does not count: a checkpoint goes on only with as many sources as it was started with.
    packed = packed.union(_beats(spark).mapInArrow(pack_beats(terms.shards), PACKED))
    link = packed.groupBy("shard").transformWithState(KeyProcessor(terms), LINK, "append", "none")
    kept = nullable(waits.drop("key_hashes").schema)
    schema = to_arrow_schema(kept, timezone=spark.conf.get("spark.sql.session.timeZone"))
    news = link.groupBy("shard").transformWithState(OperationProcessor(terms, schema), NEWS, "append", "none")
    rows = news.mapInArrow(unpack(outcome_schema(schema)), _row_type(kept))
    return _columns(_observed(rows), extra_names(operations), options.late_events)


def _waits(operations: DataFrame) -> DataFrame:
    """OP_COLUMNS, `extra` if any, and `key_hashes`."""
    judged = judge(plain_operations(operations))
    columns = {"hash": F.xxhash64("op_id"), "submitted": F.col("submitted_ms"), "delay": F.col("delay_ms")}
    hashes = F.transform("needs", lambda need: F.xxhash64(need["key"]))
    return judged.select(
        *(columns.get(name, F.col(name)).alias(name) for name in OP_COLUMNS),
        *_kept_extra(judged, extra_names(operations)),
        F.when(F.col("fault").isNull(), hashes).alias("key_hashes"),
    )


def _kept_extra(judged: DataFrame, names: list[str]) -> list[Column]:
    """`extra`, its fields known by their columns' names, not by their places, which may be others after a restart."""
    if not names:
        return []
    places = judged.schema["extra"].dataType.names  # type: ignore[attr-defined]
    fields = (F.col("extra")[place].alias(name) for place, name in zip(places, field_names(names), strict=True))
    return [F.struct(*fields).alias("extra")]


def _events(events: DataFrame) -> DataFrame:
    usable = F.expr(f"key is not null and {in_range('at_ms')}")
    return plain_events(events).select(
        "key", F.col("at_ms").alias("at"), "level", F.when(usable, F.xxhash64("key")).alias("hash")
    )


def _beats(spark: SparkSession) -> DataFrame:
    """A row for each micro-batch, so that there is one when no input has rows. A batch run again has the same time.

    Spark's source `rate` would do so once a second, but a query that has it takes in one micro-batch and ends where
    its trigger says that all there is shall be taken in (availableNow).
    """
    beats = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    return beats.select(F.unix_millis(F.current_timestamp()).alias("now"))


def _row_type(ops: T.StructType) -> T.StructType:
    """What `unpack` makes."""
    row = T.StructType()
    for field in outcome_schema(to_arrow_schema(ops, timezone="UTC")):
        # Not there in rows that are no outcome.
        row = row.add(field.name, ops["extra"].dataType if field.name == "extra" else from_arrow_type(field.type))
    for field in BESIDE:
        row = row.add(field.name, from_arrow_type(field.type))
    return row


def _observed(rows: DataFrame) -> DataFrame:
    """With the figures of each micro-batch, as Spark's observed metrics under a name that begins with METRICS."""

    def decided(outcome: str) -> Column:
        return F.count_if((F.col("kind") == OUTCOME) & (F.col("outcome") == outcome)).alias(outcome)

    return rows.observe(
        f"{METRICS}{next(_NUMBERS)}",
        *(decided(outcome) for outcome in (COMPLETED, EXPIRED, REJECTED)),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("pending", "late", "aside")),
        F.max("watermark").alias("watermark_ms"),
    )


def _columns(rows: DataFrame, extras: list[str], late_events: bool) -> DataFrame:
    """The outcomes as the caller knows them; with late events, if asked for, in a column `late`."""
    fields = rows.schema["extra"].dataType.names if extras else []  # type: ignore[attr-defined]
    late = F.struct(
        "key",
        F.timestamp_millis(F.col("at")).alias("at"),
        "level",
        F.col("was").alias("outcome"),
        F.timestamp_millis(F.col("was_finished")).alias("finished_at"),
    )
    kinds = (OUTCOME, LATE) if late_events else (OUTCOME,)
    return rows.where(F.col("kind").isin(*kinds)).select(
        "op_id",
        "outcome",
        F.timestamp_millis(F.col("finished")).alias("finished_at"),
        F.col("waited").alias("waited_ms"),
        "completed_by",
        "reason",
        *(F.col("extra")[field].alias(name) for field, name in zip(fields, extras, strict=True)),
        *([F.when(F.col("kind") == LATE, late).alias("late")] if late_events else []),
    )
