"""The timeout curve on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.cli.candidate import candidates
from dwell.cli.curve_file import Candidate, CurveFile
from dwell.cli.progress import progress
from dwell.report.curve import KEEP
from dwell.spark import curve, shortest_delay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def curve_of_tables(
    spark: SparkSession,
    operations: DataFrame,
    events: DataFrame,
    delays_ms: Sequence[int] | None = None,
    keep: Sequence[float] | None = None,
) -> CurveFile:
    with progress(spark, "timeout curve"):
        row = operations.where("delay_ms >= 0").agg(F.mode("delay_ms", deterministic=True)).collect()[0]
        chosen_ms: int | None = row[0]
        tried = sorted(delays_ms) if delays_ms else candidates(chosen_ms)
        rows = curve(operations, events, tried).collect()
    with progress(spark, "shortest timeouts"):
        least = shortest_delay(operations, events, keep or KEEP, up_to_ms=tried[-1]).collect()
    return CurveFile(
        operations=rows[0]["operations"],
        chosen_ms=chosen_ms,
        candidates=[
            Candidate(delay_ms=row["delay_ms"], expired=row["expired"], share=row["expired_share"] or 0.0)
            for row in rows
        ],
        shortest={str(row["keep"]): row["delay_ms"] for row in least},
    )
