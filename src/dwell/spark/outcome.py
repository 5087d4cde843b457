"""From needs that are met to outcomes: one shuffle by op_id, one sort, three passes over the sorted rows.

All, any and quorum are one rule: so many needs must be met. Sort the needs of an operation by the time they are met and
number them; the first whose number is that of the quorum ends the wait. Of keys met at the same time the smallest is
named, so these are sorted backwards: where the number is great enough at all, it is at the smallest key.

    met at   3    5    5    5    9
    key      d    c    b    a    e
    number   1    2    3    4    5       a quorum of 2 or 3 or 4: at 5, by a

No pass copies the needs of an operation to each of them: a wait for n keys costs n rows, not n times n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.contract.reason import Reason
from dwell.spark.fault import HAS_NO_OP_ID, text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Later than all times, earlier than all when negated.
NEVER = 2**62

# What is compared under one op_id. The key of a single need is that it was met by.
_CONTENT = """
    struct(
        submitted_ms,
        row.delay_ms,
        coalesce(row.needs, array(struct(done.key as key, row.level as level))) as needs,
        row.quorum,
        row.volume
    )
"""


def outcomes(simple: DataFrame, summed: DataFrame) -> DataFrame:
    """Operations as `told` takes them, from two frames `key, met_ms, op_id, tag, least, submitted_ms, row, extra`.

    `least` is how many needs must be met.

    One is rejected for its own fault, or because another content was there first under its op_id.
    """
    need = ("op_id", "tag", "least", "submitted_ms", "row", "extra", f"{done_ms()} as ms", "key")
    needs = simple.selectExpr(*need).union(summed.selectExpr(*need))
    first = f"min(if(row.fault is null, {_CONTENT}, null)) over (partition by hash, op_id) as first"
    differs = f"if({_CONTENT} <=> first, null, {text(Reason.CONTENT_DIFFERS, 'op_id')})"
    return (
        _condition(needs)
        .selectExpr("*", first)
        .selectExpr(
            "op_id",
            "submitted_ms",
            "row.delay_ms",
            f"coalesce(row.fault, {differs}) as reason",
            "extra",
            "done.ms as done_ms",
            "done.key as done_by",
        )
    )


def done_ms(submitted_ms: str = "submitted_ms") -> str:
    """When a need of `met` counts as met: `NEVER`, or at submission if it was before."""
    return f"greatest(coalesce(met_ms, {NEVER}), {submitted_ms})"


def _condition(needs: DataFrame) -> DataFrame:
    """One row an operation, with `done`: when its condition held first, and by which key."""
    rows = needs.repartition("op_id").selectExpr("*", "xxhash64(op_id) as hash")
    # A repeated operation has each need again, at the same time: both get the same number.
    ordered = "partition by hash, op_id, tag order by ms, key desc"
    whole = f"over ({ordered} rows between unbounded preceding and unbounded following)"
    return (
        rows.selectExpr(
            "*",
            f"dense_rank() over ({ordered}) as number",
            f"count(row) over ({ordered} rows between unbounded preceding and current row) as nth",
        )
        .selectExpr("*", f"min(if(number >= least, struct(ms, key), null)) {whole} as done")
        .where(f"row is not null and (nth = 1 or {HAS_NO_OP_ID})")
        .selectExpr("hash", "op_id", "submitted_ms", "row", "extra", "done")
    )


def told(rows: DataFrame, as_of_ms: int | None) -> DataFrame:
    """The outcome of `op_id, submitted_ms, delay_ms, reason, extra, done_ms, done_by`, with `extra` behind."""
    # Of a faulty row it may leave 64 bits, and Spark may look at it before the reason.
    deadline = "try_add(submitted_ms, delay_ms)"
    ended = f"least(done_ms, {deadline})"
    pending = "false" if as_of_ms is None else f"{ended} > {as_of_ms}"
    unfinished = f"reason is not null or {pending}"
    return rows.selectExpr(
        "op_id",
        f"""
        case when reason is not null then 'rejected'
             when {pending} then 'pending'
             when done_ms <= {deadline} then 'completed'
             else 'expired'
        end as outcome
        """,
        f"timestamp_millis(if({unfinished}, null, {ended})) as finished_at",
        f"if({unfinished}, null, {ended} - submitted_ms) as waited_ms",
        f"case when {unfinished} then null when done_ms <= {deadline} then done_by end as completed_by",
        "reason",
        "extra",
    )
