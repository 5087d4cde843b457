"""Small frames for whoever has to trust the numbers: the ledger identity, and the events that were set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.spark.fault import HAS_NO_OP_ID
from dwell.spark.schema import in_range, plain_events, plain_operations
from dwell.spark.wait import waits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("completed", "expired", "rejected", "pending")


def identity(operations: DataFrame, outcomes: DataFrame) -> DataFrame:
    """One row: `rows, repeats, operations, completed, expired, rejected, pending, balanced`.

    `operations` is counted from the input (`rows` less exact `repeats`), the four kinds from what `settle` made of it;
    `balanced` says that the four add up to it.
    """
    came = waits(plain_operations(operations)).selectExpr(
        f"""
        struct(
            count(*) as rows,
            count(distinct if({HAS_NO_OP_ID}, null, struct(op_id, tag))) + count_if({HAS_NO_OP_ID}) as operations
        )
        """
    )
    counted = outcomes.selectExpr(*(f"count_if(outcome = '{kind}') as {kind}" for kind in KINDS))
    return counted.withColumn("came", came.scalar()).selectExpr(
        "came.rows",
        "came.rows - came.operations as repeats",
        "came.operations",
        *KINDS,
        f"came.operations = {' + '.join(KINDS)} as balanced",
    )


def set_aside(events: DataFrame) -> DataFrame:
    """The events `settle` does not look at, with all their columns, and why as the last column, `set_aside`."""
    why = f"""
        case when plain.key is null then 'key is null'
             when plain.at_ms is null then 'at is null'
             when not {in_range("plain.at_ms")} then concat('at is out of range: ', plain.at_ms)
        end as why
    """
    judged = plain_events(events, keep=True).selectExpr("given.*", why).where("why is not null")
    return judged.toDF(*events.columns, "set_aside")
