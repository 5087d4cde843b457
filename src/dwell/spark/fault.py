"""What is wrong with one operation by itself, as a Spark expression.

`fault()` says, for a row of `plain_operations`, what `dwell.contract.reason.Reason` says of an operation: the same
texts, looked for in the same order. Nothing in a bad row raises, whether `spark.sql.ansi.enabled` is on or off.

Expressions are SQL text here and in the modules around: a thousand columns made one by one from Python cost seconds, a
text costs one call.
"""

from __future__ import annotations

from dwell.contract.reason import Reason
from dwell.contract.time_range import MAX_MS
from dwell.spark.schema import in_range

# The row names no operation: then it is a repeat of no other.
HAS_NO_OP_ID = "(op_id is null or op_id = '')"


def fault(*, several: bool = True) -> str:
    """The reason to reject the row for a fault of its own, or null. Expects `plain_operations`, their needs sorted.

    Where no row has `several` needs, the search through them can be left out; what is left Spark compiles as a whole.
    """
    # `needs` is sorted by key, so nulls come first and repeats stand side by side.
    repeated = without_level = "get(needs.key, 0)"
    if several:
        # The keys beside themselves moved by one. To look up the next key by its number would copy them all each time.
        pairs = "zip_with(needs.key, slice(needs.key, 2, size(needs)), (key, next) -> if(key = next, key, null))"
        repeated = f"get(filter({pairs}, key -> key is not null), 0)"
        without_level = "get(filter(needs, need -> need.level is null).key, 0)"
    rules: list[tuple[Reason, str, str | None]] = [
        (Reason.OP_ID_NULL, "op_id is null", None),
        (Reason.OP_ID_EMPTY, "op_id = ''", None),
        (Reason.SUBMITTED_AT_NULL, "submitted_ms is null", None),
        (Reason.SUBMITTED_AT_RANGE, f"not {in_range('submitted_ms')}", "submitted_ms"),
        (Reason.DELAY_NULL, "delay_ms is null", None),
        (Reason.DELAY_NEGATIVE, "delay_ms < 0", "delay_ms"),
        # The other way round, submitted + delay, may leave 64 bits.
        (Reason.DEADLINE_RANGE, f"delay_ms > {MAX_MS} - submitted_ms", "delay_ms"),
        (Reason.NEEDS_NULL, "needs is null", None),
        (Reason.NEEDS_EMPTY, "size(needs) = 0", None),
        (Reason.KEY_NULL, "get(needs.key, 0) is null", None),
        (Reason.KEY_REPEATED, "size(needs) > 1 and size(array_distinct(needs.key)) < size(needs)", repeated),
        (Reason.QUORUM_RANGE, "quorum not between 1 and size(needs)", "quorum"),
        (Reason.VOLUME_NOT_POSITIVE, "volume <= 0", "volume"),
        (Reason.VOLUME_WITH_QUORUM, "volume is not null and quorum is not null", "quorum"),
        (
            Reason.VOLUME_WITHOUT_LEVEL,
            "volume is not null and get(sort_array(needs.level), 0) is null",
            without_level,
        ),
    ]
    # One flat case: Spark cuts that into methods small enough for the JVM to compile.
    return f"case {' '.join(f'when {holds} then {text(reason, value)}' for reason, holds, value in rules)} end"


def text(reason: Reason, value: str | None = None) -> str:
    """`Reason.text` as an expression."""
    return f"'{reason.value}'" if value is None else f"concat('{reason.value}: ', cast({value} as string))"
