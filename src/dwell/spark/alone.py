"""Operations with one need, where no op_id comes twice: settled right at their key, in one shuffle and one sort.

Whatever else is said of an operation is known from its own row, so nothing has to be brought together by op_id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.spark.fault import fault
from dwell.spark.met import MARK, WALK, beside, met
from dwell.spark.outcome import done_ms
from dwell.spark.way import only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def alone(operations: DataFrame, events: DataFrame, walks: DataFrame) -> DataFrame:
    """`told` can tell the rest: `op_id, submitted_ms, delay_ms, reason, extra, done_ms, done_by`.

    `operations` are `plain_operations` with one need at most, those with none being faulty.
    """
    return met(only(beside(_needs(operations), events), walks)).selectExpr(
        "wait.*", "extra", f"{done_ms('wait.submitted_ms')} as done_ms", "key as done_by"
    )


def _needs(operations: DataFrame) -> DataFrame:
    each = operations.selectExpr("*", f"{fault(several=False)} as reason", "explode_outer(needs) as need")
    # Nobody asks about a faulty row: it only needs a place to go, not the same one for all.
    nowhere = "cast(xxhash64(op_id, submitted_ms, delay_ms) as string)"
    return each.selectExpr(
        f"if(reason is null, need.key, {nowhere}) as key",
        f"{WALK} as walk",
        f"if(reason is null, {MARK}, null) as mark",
        # One column, so that events, which have none of it, stay narrow.
        "struct(op_id, submitted_ms, delay_ms, reason) as wait",
        "extra",
    )
