"""What a stream came to when it ended: rejected rows, the counts, and the ledger identity checked against its sources.

A micro-batch counts when Spark has committed it. One whose outcomes are written and whose commit is not runs again at
the next start and writes the same rows; until then its operations are pending.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F

from dwell.cli.output import Files, files_for, whole_or_nothing
from dwell.cli.problem import Problem
from dwell.cli.summary import Summary
from dwell.cli.table_input import operations_of, reader_options, shaped
from dwell.cli.table_job import waits_of, write_rejected
from dwell.spark import OPERATIONS, OUTCOMES, identity, pending

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import DataFrame, SparkSession

    from dwell.cli.inputs import Inputs

KINDS = ("completed", "expired", "rejected", "pending")

# Sources that are files: they need a schema beforehand, and can be read again to check the ledger identity.
FILES = ("parquet", "csv", "json", "orc", "text")


def sum_up(spark: SparkSession, args: argparse.Namespace, inputs: Inputs, files: Files, started: float) -> Summary:
    last = _last_batch(files_for(args.checkpoint, spark), args.checkpoint)
    if last < 0:
        raise Problem(
            "the stream ended in its first micro-batch: nothing is settled yet, the same --checkpoint begins anew"
        )
    settled = _settled(spark, files, f"{args.out}/outcomes", last)
    waiting = pending(spark, args.checkpoint).select("op_id", F.lit("pending").alias("outcome"))
    both = settled.select("op_id", "outcome").unionByName(waiting)
    consumed = _consumed(spark, args.checkpoint, inputs, last)
    counts: dict[str, Any] = _counts(both) if consumed is None else identity(consumed, both).collect()[0].asDict()
    if counts["rejected"]:
        with whole_or_nothing(files, f"{args.out}/rejected", overwrite=True) as partial:
            write_rejected(settled.drop("batch"), partial)
    summary = Summary(
        engine=f"spark {spark.version}, {spark.sparkContext.master}, stream",
        out=args.out,
        is_checked=consumed is not None,
        **{name: counts[name] for name in ("operations", "repeats", *KINDS)},
        seconds=round(time.monotonic() - started, 3),
        waited_ms=waits_of(settled) if counts["completed"] else {},
    )
    with whole_or_nothing(files, f"{args.out}/summary.json", overwrite=True) as partial:
        files.write_text(partial, summary.as_json())
    return summary


def _last_batch(files: Files, checkpoint: str) -> int:
    """The number of the last committed micro-batch; -1 if there is none."""
    return max((int(name) for name in files.names(f"{checkpoint}/commits") if name.isdigit()), default=-1)


def _counts(outcomes: DataFrame) -> dict[str, int]:
    """What can be said without the operations themselves."""
    found = {row["outcome"]: row["count"] for row in outcomes.groupBy("outcome").count().collect()}
    return {kind: found.get(kind, 0) for kind in KINDS} | {"operations": sum(found.values()), "repeats": 0}


def _settled(spark: SparkSession, files: Files, place: str, last: int) -> DataFrame:
    if not files.exists(place) or not files.names(place):
        return spark.createDataFrame([], OUTCOMES)
    return spark.read.parquet(place).where(F.col("batch") <= last)


def _consumed(spark: SparkSession, checkpoint: str, inputs: Inputs, last: int) -> DataFrame | None:
    """The operations of all committed micro-batches, read again from the files they came from; None if from no files.

    The first source of the query is that of the operations; its log in the checkpoint names the files. It counts only
    batches with new files; how far the last micro-batch went is in Spark's offsets, after two lines of its own.
    """
    source = inputs.operations
    if source.format not in FILES:
        return None
    log = spark.read.text(f"{checkpoint}/sources/0").where("value like '{%'")
    entry = F.from_json("value", "path string, batchId bigint")
    offset = spark.read.text(f"{checkpoint}/offsets/{last}", wholetext=True).collect()[0][0].splitlines()[2]
    end = json.loads(offset)["logOffset"] if offset != "-" else -1
    named = log.select(entry.alias("entry")).where(F.col("entry.batchId") <= end)
    paths = [unquote(row[0]) for row in named.select("entry.path").distinct().collect()]
    if not paths:
        return spark.createDataFrame([], OPERATIONS)
    frame = spark.read.format(source.format).options(**reader_options(source)).load(paths)
    return operations_of(shaped(spark, frame, source), source, inputs.within_ms)
