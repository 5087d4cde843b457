"""What still waits, and for what, read from a checkpoint."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dwell.errors import InvalidArgument
from dwell.spark.stream.clock import START
from dwell.spark.stream.decide import Operations, decide
from dwell.spark.stream.journal import check_format
from dwell.spark.stream.meet import unrepeated
from dwell.spark.stream.operations import layout
from dwell.spark.stream.pack import OP_COLUMNS
from dwell.spark.stream.table import from_text, ints, joined, where
from dwell.spark.stream.timeline import NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_NEEDS = "array<struct<key: string, level: bigint, met: bigint>>"
_OPEN = f"op_id string, submitted bigint, deadline bigint, needs {_NEEDS}, quorum int, volume bigint, watermark bigint"


def pending(spark: SparkSession, checkpoint: str) -> DataFrame:
    """The operations that wait as of the last finished micro-batch of a settlement: `op_id, submitted_at, deadline,
    needs, quorum, volume, watermark`.

    Each of `needs` has, beside `key` and `level`, `met_at`: when it was met (with `volume`: when the key first rose
    above the need's level), or null if it is waited for. `watermark` is null as long as there is none. The query may be
    running. If it holds several settlements, these are the operations of all of them.
    """
    found = [_pending_in(spark, checkpoint, operator, batch) for operator, batch in _operators(spark, checkpoint)]
    return reduce(DataFrame.union, found)


def _pending_in(spark: SparkSession, checkpoint: str, operator: int, batch: int) -> DataFrame:
    def variable(name: str) -> DataFrame:
        # All of one micro-batch, also when the next one ends meanwhile.
        reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
        return reader.option("stateVarName", f"operations_{name}").load(checkpoint)

    def texts(frame: DataFrame, name: Column, rows: Column) -> DataFrame:
        return frame.select(F.col("key.shard").alias("shard"), name.alias("name"), rows.alias("rows"))

    headers = variable("header")
    for row in headers.select("value.json").limit(1).collect():
        check_format(json.loads(row.json))
    parts = variable("parts")
    kept = texts(headers, F.lit("header"), F.col("value.json"))
    kept = kept.union(texts(variable("log"), F.col("list_element.name"), F.col("list_element.rows")))
    kept = kept.union(texts(variable("slices"), F.lit("ops"), F.col("user_map_value.ops")))
    for name in ("ops", "met", "known"):
        kept = kept.union(texts(parts, F.lit(name), F.col(f"user_map_value.{name}")))
    rows = kept.where("rows is not null").groupBy("shard").applyInArrow(_open, _OPEN)
    needs = F.transform(
        "needs",
        lambda need: F.struct(
            need["key"].alias("key"), need["level"].alias("level"), F.timestamp_millis(need["met"]).alias("met_at")
        ),
    )
    return rows.select(
        "op_id",
        F.timestamp_millis(F.col("submitted")).alias("submitted_at"),
        F.timestamp_millis(F.col("deadline")).alias("deadline"),
        needs.alias("needs"),
        "quorum",
        "volume",
        F.timestamp_millis(F.when(F.col("watermark") > START, F.col("watermark"))).alias("watermark"),
    )


def _operators(spark: SparkSession, checkpoint: str) -> list[tuple[int, int]]:
    """For each settlement the number of its second stage, and that of the last finished micro-batch."""
    found = [
        (int(row["operatorId"]), int(row["maxBatchId"]))
        for row in spark.read.format("state-metadata").load(checkpoint).collect()
        if "operations_header" in (row["operatorProperties"] or "")
    ]
    if not found:
        raise InvalidArgument(f"{checkpoint} is not the checkpoint of a settlement")
    return sorted(set(found))


def _open(kept: pa.Table) -> pa.Table:
    texts: dict[str, list[str]] = {}
    for row in kept.to_pylist():
        texts.setdefault(row["name"], []).append(row["rows"])
    until = json.loads(texts["header"][0])["watermark"]
    tables = {name: [from_text(text) for text in texts.get(name, [])] for name in ("ops", "met", "known")}
    rows: list[dict[str, Any]] = []
    if tables["ops"]:
        # What passes through is not shown; its type may have changed with the session's time zone.
        tables["ops"] = [ops.select(OP_COLUMNS) for ops in tables["ops"]]
        schemas = layout(tables["ops"][0].schema).parts
        all_ = Operations(*(joined(tables[name], schemas[name]) for name in schemas))
        due = ints(all_.ops, "submitted") < until
        at = decide(all_._replace(ops=where(all_.ops, due)), until)
        rows = [
            *_waiting(where(at.ops, at.instant == NEVER), all_.met),
            *_waiting(unrepeated(where(all_.ops, ~due), "hash", "tag"), all_.met),
        ]
    schema = pa.schema(
        [
            ("op_id", pa.string()),
            ("submitted", pa.int64()),
            ("deadline", pa.int64()),
            (
                "needs",
                pa.list_(pa.struct([("key", pa.string()), ("level", pa.int64()), ("met", pa.int64())])),
            ),
            ("quorum", pa.int32()),
            ("volume", pa.int64()),
            ("watermark", pa.int64()),
        ]
    )
    return pa.Table.from_pylist([{**row, "watermark": until} for row in rows], schema)


def _waiting(ops: pa.RecordBatch, met: pa.RecordBatch) -> list[dict[str, Any]]:
    first: dict[tuple[int, int, int], int] = {}
    for row in met.to_pylist():
        need = row["hash"], row["tag"], row["no"]
        first[need] = min(first.get(need, row["at"]), row["at"])
    return [
        {
            **{name: op[name] for name in ("op_id", "submitted", "quorum", "volume")},
            "deadline": op["submitted"] + op["delay"],
            "needs": [{**need, "met": first.get((op["hash"], op["tag"], no))} for no, need in enumerate(op["needs"])],
        }
        for op in ops.to_pylist()
    ]
