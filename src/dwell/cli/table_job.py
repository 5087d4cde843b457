"""`dwell settle` on Spark, for tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.cli.curve_file import FILE_NAME
from dwell.cli.ending import work_ends_with_the_block
from dwell.cli.output import files_for, must_be_free, whole_or_nothing
from dwell.cli.progress import progress
from dwell.cli.summary import PERCENTILES, Summary
from dwell.cli.table_curve import curve_of_tables
from dwell.cli.table_input import read_tables
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
            write_rejected(written, f"{partial}/rejected")
            waited_ms = waits_of(written)
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


def write_rejected(outcomes: DataFrame, place: str) -> None:
    """Those that could not be settled, without the columns that are null for all of them."""
    rejected = outcomes.where("outcome = 'rejected'").drop("outcome", "finished_at", "waited_ms", "completed_by")
    rejected.coalesce(1).write.parquet(place)


def waits_of(outcomes: DataFrame) -> dict[str, int]:
    """How long completed operations waited: `p50` and so on, in milliseconds; empty if there are none."""
    shares = [p / 100 for p in PERCENTILES]
    found = outcomes.where("outcome = 'completed'").agg(F.percentile_approx("waited_ms", shares, 10_000))
    return {f"p{p}": ms for p, ms in zip(PERCENTILES, found.collect()[0][0] or [], strict=False)}
