"""What is wrong with one operation by itself, as a Spark expression.

`fault()` says, for a row of `plain_operations`, what `dwell.ledger.reason.Reason` says of an operation: the same
texts, looked for in the same order. Nothing in a bad row raises, whether `spark.sql.ansi.enabled` is on or off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from dwell.ledger.reason import MAX_MS, Reason
from dwell.spark.schema import in_range

if TYPE_CHECKING:
    from pyspark.sql import Column


def fault(*, several: bool = True) -> Column:
    """The reason to reject the row for a fault of its own, or null. Expects the columns of `plain_operations`.

    Where no row has `several` needs, the search through them can be left out; what is left Spark compiles as a whole.
    """
    op_id, submitted, delay = F.col("op_id"), F.col("submitted_ms"), F.col("delay_ms")
    needs, quorum, volume = F.col("needs"), F.col("quorum"), F.col("volume")
    # `needs` is sorted by key, so nulls come first and repeats stand side by side.
    keys = needs["key"]
    count = F.size(needs)
    repeated, without_level = keys, needs
    if several:
        repeated = F.filter(keys, lambda key, i: key == F.get(keys, i + F.lit(1)))
        without_level = F.filter(needs, lambda need: need["level"].isNull())
    rules: list[tuple[Reason, Column, Column | None]] = [
        (Reason.OP_ID_NULL, op_id.isNull(), None),
        (Reason.OP_ID_EMPTY, op_id == "", None),
        (Reason.SUBMITTED_AT_NULL, submitted.isNull(), None),
        (Reason.SUBMITTED_AT_RANGE, ~in_range(submitted), submitted),
        (Reason.DELAY_NULL, delay.isNull(), None),
        (Reason.DELAY_NEGATIVE, delay < 0, delay),
        # The other way round, submitted + delay, may leave 64 bits.
        (Reason.DEADLINE_RANGE, delay > F.lit(MAX_MS) - submitted, delay),
        (Reason.NEEDS_NULL, needs.isNull(), None),
        (Reason.NEEDS_EMPTY, count == 0, None),
        (Reason.KEY_NULL, F.get(keys, F.lit(0)).isNull(), None),
        (
            Reason.KEY_REPEATED,
            (count > 1) & (F.size(F.array_distinct(keys)) < count),
            F.get(repeated, F.lit(0)),
        ),
        (Reason.QUORUM_RANGE, ~quorum.between(1, count), quorum),
        (Reason.VOLUME_NOT_POSITIVE, volume <= 0, volume),
        (Reason.VOLUME_WITH_QUORUM, volume.isNotNull() & quorum.isNotNull(), quorum),
        (
            Reason.VOLUME_WITHOUT_LEVEL,
            volume.isNotNull() & F.get(F.sort_array(needs["level"]), F.lit(0)).isNull(),
            F.get(without_level, F.lit(0))["key"],
        ),
    ]
    # One flat case: Spark cuts that into methods small enough for the JVM to compile.
    reason, holds, value = rules[0]
    first = F.when(holds, text(reason, value))
    for reason, holds, value in rules[1:]:
        first = first.when(holds, text(reason, value))
    return first


def has_no_op_id() -> Column:
    """Whether the row names no operation: then it is a repeat of no other."""
    return F.col("op_id").isNull() | (F.col("op_id") == "")


def text(reason: Reason, value: Column | None = None) -> Column:
    """`Reason.text` as an expression."""
    if value is None:
        return F.lit(reason.value)
    return F.concat(F.lit(f"{reason.value}: "), value.cast("string"))
