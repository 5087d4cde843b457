"""`dwell settle --stream`: outcomes as they are decided, until Ctrl-C, --for or --once ends it.

Each micro-batch goes to a directory named by its number (`outcomes/batch=000000017`), which a batch that runs again
after a crash writes anew: nothing is lost or doubled, for any reader.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from dwell.cli.output import Files, files_for, must_be_free
from dwell.cli.progress import CLEAR_LINE
from dwell.cli.summary import PERCENTILES, Summary
from dwell.cli.table_input import CSV_OPTIONS, events_of, operations_of, shaped
from dwell.cli.table_job import asking, with_asked
from dwell.report import words
from dwell.spark import OPERATIONS, SettleOptions, identity, settle
from dwell.spark.stream.listener import Figures, FiguresListener
from dwell.spark.stream.pending import pending

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from dwell.cli.inputs import Input, Inputs

# Sources that are files: they need a schema beforehand, and can be read again to check the ledger identity.
FILES = ("parquet", "csv", "json", "orc", "text")


def settle_stream(spark: SparkSession, args: argparse.Namespace, inputs: Inputs) -> Summary:
    started = time.monotonic()
    files = files_for(args.out, spark)
    if not files.exists(args.checkpoint):
        must_be_free(files, args.out, args.overwrite)
        if args.overwrite:
            files.remove(args.out)
    operations = operations_of(_read(spark, inputs.operations), inputs.operations, inputs.within_ms)
    events = events_of(_read(spark, inputs.events), inputs.events)
    outcomes = with_asked(settle(asking(operations), events, options=_options(args)))
    writer = outcomes.writeStream.option("checkpointLocation", args.checkpoint)
    writer = writer.foreachBatch(_writer(files, f"{args.out}/outcomes"))
    listener = FiguresListener(_teller())
    spark.streams.addListener(listener)
    query = (writer.trigger(availableNow=True) if args.once else writer).start()
    print(f"settling what arrives; {'all that is there' if args.once else 'Ctrl-C ends it'}", file=sys.stderr)
    _await(query, args.for_ms)
    spark.streams.removeListener(listener)
    if sys.stderr.isatty():
        sys.stderr.write(CLEAR_LINE)
    return _summary(spark, args, inputs, files, started)


def _read(spark: SparkSession, source: Input) -> DataFrame:
    if source.format == "table":
        return shaped(spark, spark.readStream.table(source.path), source)
    options = (CSV_OPTIONS if source.format == "csv" else {}) | source.options
    reader = spark.readStream.format(source.format).options(**options)
    if source.format in FILES:
        reader = reader.schema(spark.read.format(source.format).options(**options).load(source.path).schema)
        return shaped(spark, reader.load(source.path), source)
    # Such as kafka: where it is stands in the options, the path is only its name.
    return shaped(spark, reader.load() if "://" not in source.path else reader.load(source.path), source)


def _options(args: argparse.Namespace) -> SettleOptions:
    said: dict[str, timedelta | None] = {}
    if args.lateness is not None:
        said["lateness"] = args.lateness
    if args.once:
        # Nobody waits for silence: what is undecided stays pending until the next run.
        said["idle_after"] = None
    elif args.idle_after is not None:
        said["idle_after"] = args.idle_after
    return SettleOptions(**said)  # type: ignore[arg-type]


def _writer(files: Files, target: str) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        place = f"{target}/batch={number:09d}"
        seen = Observation()
        counted = batch.observe(seen, F.count(F.lit(1)).alias("rows"))
        counted.write.mode("overwrite").parquet(place)
        if not seen.get["rows"]:
            files.remove(place)

    return write


def _teller() -> Callable[[Figures], None]:
    is_terminal = sys.stderr.isatty()

    def tell(figures: Figures) -> None:
        n = words.count
        decided = figures.completed + figures.expired + figures.rejected
        text = (
            f"batch {figures.batch}: {n(figures.completed)} completed, {n(figures.expired)} expired, "
            f"{n(figures.rejected)} rejected; {n(figures.pending)} pending, {n(figures.late)} late events; "
            f"{words.duration(figures.batch_ms)}"
        )
        if is_terminal:
            sys.stderr.write(CLEAR_LINE + text)
            sys.stderr.flush()
        elif decided or figures.late:
            print(text, file=sys.stderr)

    return tell


def _await(query: StreamingQuery, for_ms: int | None) -> None:
    """Until the time is over, the query ends, or Ctrl-C; then let the batch at work finish or be given up."""
    try:
        query.awaitTermination(None if for_ms is None else max(1, for_ms // 1000))
    except KeyboardInterrupt:
        print("\nending the stream; the same --checkpoint goes on from here", file=sys.stderr)
    finally:
        query.stop()


def _summary(spark: SparkSession, args: argparse.Namespace, inputs: Inputs, files: Files, started: float) -> Summary:
    waiting = pending(spark, args.checkpoint).select("op_id", F.lit("pending").alias("outcome"))
    settled = _settled(spark, files, f"{args.out}/outcomes")
    both = waiting if settled is None else settled.select("op_id", "outcome").unionByName(waiting)
    counts = {row["outcome"]: row["count"] for row in both.groupBy("outcome").count().collect()}
    kinds = {kind: counts.get(kind, 0) for kind in ("completed", "expired", "rejected", "pending")}
    consumed = _consumed(spark, args.checkpoint, inputs)
    checked = None if consumed is None else identity(consumed, both).collect()[0]
    waits = [] if settled is None else _percentiles(settled)
    summary = Summary(
        engine=f"spark {spark.version}, {args.master}, stream",
        out=args.out,
        operations=sum(kinds.values()) if checked is None else checked["operations"],
        repeats=0 if checked is None else checked["repeats"],
        is_checked=checked is not None,
        **kinds,
        seconds=round(time.monotonic() - started, 3),
        waited_ms={f"p{p}": ms for p, ms in zip(PERCENTILES, waits, strict=False)},
    )
    files.write_text(f"{args.out}/summary.json", summary.as_json())
    return summary


def _settled(spark: SparkSession, files: Files, place: str) -> DataFrame | None:
    return spark.read.parquet(place) if files.exists(place) else None


def _percentiles(settled: DataFrame) -> list[int]:
    found = settled.where("outcome = 'completed'").agg(
        F.percentile_approx("waited_ms", [p / 100 for p in PERCENTILES], 10_000)
    )
    return found.collect()[0][0] or []


def _consumed(spark: SparkSession, checkpoint: str, inputs: Inputs) -> DataFrame | None:
    """The operations of all finished micro-batches, read again from the files they came from; None if from no files.

    The first source of the query is that of the operations; its log in the checkpoint names the files of each batch.
    """
    source = inputs.operations
    if source.format not in FILES:
        return None
    commits = spark.read.text(f"{checkpoint}/commits").select(F.col("_metadata.file_name")).distinct().collect()
    last = max((int(row[0]) for row in commits if row[0].isdigit()), default=-1)
    log = spark.read.text(f"{checkpoint}/sources/0").where("value like '{%'")
    entry = F.from_json("value", "path string, batchId bigint")
    named = log.select(entry.alias("entry")).where(F.col("entry.batchId") <= last)
    paths = [row[0] for row in named.select("entry.path").distinct().collect()]
    if not paths:
        return spark.createDataFrame([], OPERATIONS)
    options = (CSV_OPTIONS if source.format == "csv" else {}) | source.options
    frame = spark.read.format(source.format).options(**options).load(paths)
    return operations_of(shaped(spark, frame, source), source, inputs.within_ms)
