"""What a stream came to when it ended: rejected rows, the counts, and the ledger identity checked against its sources.

A micro-batch counts when Spark has committed it. One whose outcomes are written and whose commit is not runs again at
the next start and writes the same rows; until then its operations are pending.

Read are the outcomes and the input files that came since the last run ended; the rest is in the tally. Only if these do
not balance are all input files read: an operation may have repeated one from before.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pyspark.sql import functions as F

from dwell.cli.output import Files, files_for, whole_or_nothing
from dwell.cli.problem import Problem
from dwell.cli.summary import Summary
from dwell.cli.table_input import operations_of, read_files
from dwell.cli.table_job import rejected_of, waits_of
from dwell.cli.tally import Tally, read_tally, write_tally
from dwell.spark import OUTCOMES, identity, pending

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import DataFrame, SparkSession

    from dwell.cli.inputs import Inputs

# The column Spark makes of the names of the directories of micro-batches.
BATCH = "batch"

# Where something is written until it is whole. Readers of Parquet pass over names that begin with an underscore.
PARTIAL = "_partial"

# Sources that are files: they need a schema beforehand, and can be read again to check the ledger identity.
FILES = ("parquet", "csv", "json", "orc", "text")

NO_FILES = "the source cannot be read twice"
GONE = "input files were gone before they could be counted"
MAY_REPEAT = "operations may repeat some from input files that are gone"


class Came(NamedTuple):
    """Operations counted at their source."""

    operations: int
    repeats: int


def sum_up(spark: SparkSession, args: argparse.Namespace, inputs: Inputs, files: Files, started: float) -> Summary:
    last = _last_batch(files_for(args.checkpoint, spark), args.checkpoint)
    if last < 0:
        raise Problem(
            "the stream ended in its first micro-batch: nothing is settled yet, the same --checkpoint begins anew"
        )
    known = read_tally(files, args.out)
    before = known or Tally()
    settled = _settled(spark, files, f"{args.out}/outcomes", before.batch, last)
    tally = _added(before, settled)
    if known is None:
        files.remove(f"{args.out}/rejected")
    if tally.rejected > before.rejected:
        _write_rejected(files, settled, f"{args.out}/rejected")
    waiting = pending(spark, args.checkpoint).count()
    tally = _checked(replace(tally, batch=last), waiting, _Source(spark, args.checkpoint, inputs, last))
    summary = Summary(
        engine=f"spark {spark.version}, {spark.sparkContext.master}, stream",
        out=args.out,
        operations=tally.operations,
        repeats=tally.repeats,
        completed=tally.completed,
        expired=tally.expired,
        rejected=tally.rejected,
        pending=waiting,
        unchecked=tally.unchecked,
        seconds=round(time.monotonic() - started, 3),
        waited_ms=tally.histogram().percentiles(),
    )
    write_tally(files, args.out, tally)
    with whole_or_nothing(files, f"{args.out}/summary.json", overwrite=True) as partial:
        files.write_text(partial, summary.as_json())
    return summary


def _last_batch(files: Files, checkpoint: str) -> int:
    """The number of the last committed micro-batch; -1 if there is none."""
    return max((int(name) for name in files.names(f"{checkpoint}/commits") if name.isdigit()), default=-1)


def _settled(spark: SparkSession, files: Files, place: str, after: int, last: int) -> DataFrame:
    """The outcomes of the micro-batches behind `after`, up to the last that is committed."""
    found = []
    if files.exists(place):
        numbered = ((name, name.removeprefix(f"{BATCH}=")) for name in files.names(place))
        found = [f"{place}/{name}" for name, number in numbered if number.isdigit() and after < int(number) <= last]
    if not found:
        return spark.createDataFrame([], OUTCOMES).withColumn(BATCH, F.lit(None).cast("int"))
    return spark.read.option("basePath", place).parquet(*sorted(found))


def _added(before: Tally, settled: DataFrame) -> Tally:
    counts = {row["outcome"]: row["count"] for row in settled.groupBy("outcome").count().collect()}
    return replace(
        before,
        completed=before.completed + counts.get("completed", 0),
        expired=before.expired + counts.get("expired", 0),
        rejected=before.rejected + counts.get("rejected", 0),
    ).with_waits(waits_of(settled))


def _write_rejected(files: Files, settled: DataFrame, place: str) -> None:
    """A directory for each micro-batch that rejected something, named as that of its outcomes."""
    partial = f"{place}/{PARTIAL}"
    named = rejected_of(settled).withColumn(BATCH, F.lpad(F.col(BATCH).cast("string"), 9, "0"))
    named.coalesce(1).write.mode("overwrite").partitionBy(BATCH).parquet(partial)
    for name in files.names(partial):
        if name.startswith(f"{BATCH}="):
            files.remove(f"{place}/{name}")
            files.rename(f"{partial}/{name}", f"{place}/{name}")
    files.remove(partial)


def _checked(tally: Tally, waiting: int, source: _Source) -> Tally:
    """With the operations counted at their source; if that cannot be done, with those that have come out."""
    end = source.end()
    if end is None:
        return replace(tally, operations=tally.settled + waiting, unchecked=NO_FILES)
    new = source.counted(after=tally.source_end, upto=end)
    found = None if new is None else Came(tally.operations + new.operations, tally.repeats + new.repeats)
    unchecked = tally.unchecked or (GONE if found is None else None)
    if unchecked is None and found is not None and found.operations != tally.settled + waiting:
        # New operations may repeat some from before, which only shows beside them.
        found = source.counted(after=-1, upto=end)
        unchecked = MAY_REPEAT if found is None else None
    if unchecked is not None or found is None:
        return replace(tally, source_end=end, operations=tally.settled + waiting, unchecked=unchecked)
    return replace(tally, source_end=end, operations=found.operations, repeats=found.repeats)


class _Source:
    """The operations as they lie in the files the stream has read.

    The first source of the query is that of the operations; its log in the checkpoint names the files. It counts only
    batches with new files; how far the last micro-batch went is in Spark's offsets, after two lines of its own.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, inputs: Inputs, last: int) -> None:
        self._spark, self._checkpoint, self._inputs, self._last = spark, checkpoint, inputs, last

    def end(self) -> int | None:
        """How far the log of the source was read; None if it is none of files."""
        if self._inputs.operations.format not in FILES:
            return None
        noted = self._spark.read.text(f"{self._checkpoint}/offsets/{self._last}", wholetext=True)
        offset = noted.collect()[0][0].splitlines()[2]
        return int(json.loads(offset)["logOffset"]) if offset != "-" else -1

    def counted(self, *, after: int, upto: int) -> Came | None:
        """The operations in the files of these entries; None if some are gone."""
        log = self._spark.read.text(f"{self._checkpoint}/sources/0").where("value like '{%'")
        entry = F.from_json("value", "path string, batchId bigint").alias("entry")
        named = log.select(entry).where((F.col("entry.batchId") > after) & (F.col("entry.batchId") <= upto))
        paths = [unquote(row[0]) for row in named.select("entry.path").distinct().collect()]
        if not paths:
            return Came(0, 0)
        source = self._inputs.operations
        try:
            frame = operations_of(read_files(self._spark, source, paths), source, self._inputs.within_ms)
            row = identity(frame, self._spark.createDataFrame([], OUTCOMES)).collect()[0]
        except Exception as error:
            if re.search("PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException", str(error)):
                return None
            raise
        return Came(row["operations"], row["repeats"])
