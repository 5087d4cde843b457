"""Operations made ready to be settled: judged by themselves, and told apart by their content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.spark.fault import fault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def waits(operations: DataFrame) -> DataFrame:
    """One row for each row of `plain_operations`: `op_id, tag, submitted_ms, deadline_ms, needs, row, extra`.

    `tag` is a 64-bit hash of the content: rows of one op_id with the same tag are repeats of each other. `row` is
    what is asked once an operation and not once a need: its content and its own fault.
    A faulty operation gets one need nobody asks about, on a key of its own, so that it travels like the others.
    """
    nobody = "struct(cast(tag as string) as key, get(needs, 0).level as level)"
    # A single need is known where its row goes; only several have to be carried to be compared.
    several, single = "if(size(needs) > 1, needs, null)", "if(size(needs) = 1, get(needs, 0).level, null)"
    return judge(operations).selectExpr(
        "op_id",
        "tag",
        "submitted_ms",
        # Of a faulty row it may leave 64 bits, and Spark may look at it before the fault.
        "if(fault is null, try_add(submitted_ms, delay_ms), null) as deadline_ms",
        f"if(fault is null, needs, array({nobody})) as needs",
        f"struct(delay_ms, {several} as needs, {single} as level, quorum, volume, fault) as row",
        "extra",
    )


def judge(operations: DataFrame) -> DataFrame:
    """`plain_operations` with `fault` and `tag`, the needs sorted (key before level, nulls first)."""
    needs = "if(size(needs) > 1, sort_array(needs), needs) as needs"
    # The hash skips nulls. In a sound row that is harmless: a key precedes each level, 0 is no quorum and no volume.
    exact = "xxhash64(submitted_ms, delay_ms, needs, coalesce(quorum, 0), coalesce(volume, 0))"
    # A need that is null is one without key and level.
    plain = "transform(needs, need -> struct(need.key as key, need.level as level))"
    faulty = f"xxhash64(to_json(struct(submitted_ms, delay_ms, {plain} as needs, quorum, volume)))"
    return (
        operations.selectExpr("* except (needs)", needs)
        .selectExpr("*", f"{fault()} as fault")
        .selectExpr("*", f"if(fault is null, {exact}, {faulty}) as tag")
    )
