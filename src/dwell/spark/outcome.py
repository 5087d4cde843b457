"""From needs that are met to outcomes: one shuffle by op_id, one sort, two passes over the sorted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.ledger.reason import Reason
from dwell.spark.fault import HAS_NO_OP_ID, text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Later than all times, earlier than all when negated.
NEVER = 2**62

ANY, ALL, SOME = 1, -1, 0

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
    """Operations as `told` takes them, from two frames `key, met_ms, op_id, tag, rule, submitted_ms, row, extra`.

    One is rejected for its own fault, or because another content was there first under its op_id.
    """
    need = ("op_id", "tag", "rule", "submitted_ms", "row", "extra", f"struct({done_ms()} as ms, key) as met")
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
    ordered = "partition by hash, op_id, tag order by row is null"
    whole = f"over ({ordered} rows between unbounded preceding and unbounded following)"
    last = "get(sort_array(each), cast(row.quorum as int) - 1).ms"
    return (
        rows.selectExpr(
            "*",
            f"row_number() over ({ordered}) as nth",
            f"min(if(rule != {SOME}, struct(rule * met.ms as ms, met.key as key), null)) {whole} as best",
            f"collect_set(if(rule = {SOME}, met, null)) {whole} as each",
        )
        .where(f"nth = 1 or {HAS_NO_OP_ID}")
        .selectExpr(
            "hash",
            "op_id",
            "submitted_ms",
            "row",
            "extra",
            f"""
            if(rule = {SOME},
               get(filter(sort_array(each), one -> one.ms = {last}), 0),
               struct(rule * best.ms as ms, best.key as key)) as done
            """,
        )
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
