"""`dwell settle` on Spark, for tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.cli.curve_file import FILE_NAME
from dwell.cli.ending import work_ends_with_the_block
from dwell.cli.output import files_for, must_be_free, whole_or_nothing
from dwell.cli.progress import progress
from dwell.cli.summary import Summary
from dwell.cli.table_curve import curve_of_tables
from dwell.cli.table_input import read_tables
from dwell.report.wait_histogram import BITS, WaitHistogram
from dwell.spark import OPERATIONS, OUTCOMES, identity, set_aside, settle

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import DataFrame, SparkSession

    from dwell.cli.inputs import Inputs

# What was asked travels through `settle` in one extra column, so that an outcome can be read without its operation.
ASKED = "_asked"
ASKED_NAMES = [name for name in OPERATIONS.names if name != "op_id"]


def settle_tables(spark: SparkSession, args: argparse.Namespace, inputs: Inputs) -> Summary:
    started = time.monotonic()
    files = files_for(args.out, spark)
    must_be_free(files, args.out, args.overwrite)
    operations, events = read_tables(spark, inputs)
    outcomes = with_asked(settle(asking(operations), events, as_of=args.as_of))
    whole = whole_or_nothing(files, args.out, overwrite=args.overwrite)
    with whole as partial, work_ends_with_the_block(spark):
        with progress(spark, "settling"):
            outcomes.write.parquet(f"{partial}/outcomes")
        with progress(spark, "summing up"):
            written = spark.read.parquet(f"{partial}/outcomes")
            rejected_of(written).coalesce(1).write.parquet(f"{partial}/rejected")
            waited_ms = waits_of(written).percentiles()
            ledger = identity(operations, written).collect()[0]
            events_in, events_set_aside = events.count(), set_aside(events).count()
        summary = Summary(
            engine=f"spark {spark.version}, {spark.sparkContext.master}",
            out=args.out,
            **{name: ledger[name] for name in ("operations", "repeats", "completed", "expired", "rejected", "pending")},
            events=events_in,
            events_set_aside=events_set_aside,
            seconds=round(time.monotonic() - started, 3),
            waited_ms=waited_ms,
            as_of=None if args.as_of is None else args.as_of.isoformat(),
        )
        if args.curve:
            files.write_text(f"{partial}/{FILE_NAME}", curve_of_tables(spark, operations, events).as_json())
        files.write_text(f"{partial}/summary.json", summary.as_json())
    return summary


def asking(operations: DataFrame) -> DataFrame:
    return operations.withColumn(ASKED, F.struct(*ASKED_NAMES))


def with_asked(outcomes: DataFrame) -> DataFrame:
    """Outcome, then what was asked, then the caller's own columns."""
    extras = [name for name in outcomes.columns if name not in OUTCOMES.names and name != ASKED]
    return outcomes.select(*OUTCOMES.names, f"{ASKED}.*", *(F.col(f"`{name}`") for name in extras))


def rejected_of(outcomes: DataFrame) -> DataFrame:
    """Those that could not be settled, without the columns that are null for all of them."""
    return outcomes.where("outcome = 'rejected'").drop("outcome", "finished_at", "waited_ms", "completed_by")


def waits_of(outcomes: DataFrame) -> WaitHistogram:
    """How long completed operations waited."""
    waits = outcomes.where("outcome = 'completed'").selectExpr("waited_ms", f"{_place('waited_ms')} as place")
    found = waits.groupBy("place").agg(F.count(F.lit(1)).alias("count"), F.max("waited_ms").alias("longest")).toArrow()
    histogram = WaitHistogram()
    if found.num_rows:
        counts = dict(zip(found["place"].to_pylist(), found["count"].to_pylist(), strict=True))
        histogram.add_counted(counts, max(found["longest"].to_pylist()))
    return histogram


def _place(wait: str) -> str:
    """`place_of` of the histogram as an expression."""
    shift = f"greatest(length(bin(greatest({wait}, 1))) - {BITS + 1}, 0)"
    return f"shiftleft(cast({shift} as bigint), {BITS}) + shiftright({wait}, {shift})"
