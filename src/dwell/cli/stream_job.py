"""`dwell settle --stream`: outcomes as they are decided, until Ctrl-C, --for or --once ends it.

Each micro-batch goes to a directory named by its number (`outcomes/batch=000000017`), which is there only when it is
whole, and which a batch that runs again after a crash writes anew: nothing is lost or doubled, for any reader.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from dwell.cli.ending import elsewhere
from dwell.cli.output import Files, files_for, must_be_free
from dwell.cli.problem import Problem
from dwell.cli.progress import CLEAR_LINE
from dwell.cli.stream_summary import BATCH, FILES, PARTIAL, sum_up
from dwell.cli.table_input import (
    events_of,
    is_json_as_text,
    json_schema,
    operations_of,
    places,
    reader_options,
    shaped,
    sound_lines,
    with_corrupt,
)
from dwell.cli.table_job import asking, with_asked
from dwell.report import words
from dwell.spark import SettleOptions, settle
from dwell.spark.stream.listener import Figures, FiguresListener

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from dwell.cli.inputs import Input, Inputs
    from dwell.cli.summary import Summary

# From one micro-batch to the next, if it takes no longer.
INTERVAL = "1 second"


def settle_stream(spark: SparkSession, args: argparse.Namespace, inputs: Inputs) -> Summary:
    started = time.monotonic()
    files = files_for(args.out, spark)
    if not files_for(args.checkpoint, spark).exists(args.checkpoint):
        must_be_free(files, args.out, args.overwrite)
        if args.overwrite:
            files.remove(args.out)
    operations = operations_of(_read(spark, inputs.operations), inputs.operations, inputs.within_ms)
    if BATCH in operations.columns:
        raise Problem(f"operations has a column {BATCH!r}, which a stream's outcomes have too: rename it")
    events = events_of(_read(spark, inputs.events), inputs.events)
    outcomes = with_asked(settle(asking(operations), events, options=_options(args)))
    writer = outcomes.writeStream.option("checkpointLocation", args.checkpoint)
    writer = writer.foreachBatch(_writer(files, f"{args.out}/outcomes"))
    tell = _Teller()
    listener = FiguresListener(tell)
    spark.streams.addListener(listener)
    try:
        # There is always another micro-batch, for the time that passes: without an interval they would not pause.
        writer = writer.trigger(availableNow=True) if args.once else writer.trigger(processingTime=INTERVAL)
        query = writer.start()
        print(f"settling {'all that is there' if args.once else 'what arrives, Ctrl-C ends it'}", file=sys.stderr)
        _await(query, args.for_ms)
        tell.end()
        files.remove(f"{args.out}/outcomes/{PARTIAL}")
        spark.streams.removeListener(listener)
        return sum_up(spark, args, inputs, files, started)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what is written is whole, the same --checkpoint goes on from here") from None


def _read(spark: SparkSession, source: Input) -> DataFrame:
    if source.format == "table":
        return shaped(spark, spark.readStream.table(source.path), source)
    reader = spark.readStream.format(source.format).options(**reader_options(source))
    if is_json_as_text(source):
        schema = json_schema(spark, source, [source.path])
        return sound_lines(reader.schema(with_corrupt(schema)).load(source.path), schema)
    if source.format in FILES:
        reader = reader.schema(
            spark.read.format(source.format).options(**reader_options(source)).load(source.path).schema
        )
    return shaped(spark, reader.load(*places(source)), source)


def _options(args: argparse.Namespace) -> SettleOptions:
    said: dict[str, timedelta | int | None] = {}
    if args.lateness is not None:
        said["lateness"] = args.lateness
    if args.shards is not None:
        said["shards"] = args.shards
    if args.once:
        # Nobody waits for silence: what is undecided stays pending until the next run.
        said["idle_after"] = None
    elif args.idle_after is not None:
        said["idle_after"] = args.idle_after
    return SettleOptions(**said)  # type: ignore[arg-type]


def _writer(files: Files, target: str) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        place, partial = f"{target}/{BATCH}={number:09d}", f"{target}/{PARTIAL}"
        seen = Observation()
        counted = batch.observe(seen, F.count(F.lit(1)).alias("rows"))
        counted.write.mode("overwrite").parquet(partial)
        files.remove(place)
        if seen.get["rows"]:
            files.rename(partial, place)
        else:
            files.remove(partial)

    return write


class _Teller:
    """Says what each micro-batch did: one line that changes on a terminal, elsewhere a line if it decided something."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._has_ended = False

    def __call__(self, figures: Figures) -> None:
        n = words.count
        decided = figures.completed + figures.expired + figures.rejected
        text = (
            f"batch {figures.batch}: {n(figures.completed)} completed, {n(figures.expired)} expired, "
            f"{n(figures.rejected)} rejected; {n(figures.pending)} pending, {n(figures.late)} late events; "
            f"{words.duration(figures.batch_ms)}"
        )
        # Spark calls from a thread of its own, and may be late.
        if self._has_ended:
            return
        if self._is_terminal:
            sys.stderr.write(CLEAR_LINE + text)
            sys.stderr.flush()
        elif decided or figures.late:
            print(text, file=sys.stderr)

    def end(self) -> None:
        self._has_ended = True
        if self._is_terminal:
            sys.stderr.write(CLEAR_LINE)


def _await(query: StreamingQuery, for_ms: int | None) -> None:
    """Until the time is over, the query ends, or Ctrl-C; the batch at work is given up, and runs again another time."""
    try:
        query.awaitTermination(None if for_ms is None else for_ms / 1000)  # type: ignore[arg-type]  # it takes parts
    except KeyboardInterrupt:
        print("\nending the stream, then summing up", file=sys.stderr)
    finally:
        elsewhere(query.stop)
