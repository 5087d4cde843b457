"""Rows under one op_id: which are the same operation, and which of several different ones counts.

A row is `(op_id, needs, delay_ms, submitted_at_ms, quorum, volume)` and a need is `(key, level)`; a null in place of a
need is read as a need with a null key.
"""

from __future__ import annotations

from collections.abc import Sequence

Need = tuple["str | None", "int | None"]
Row = tuple["str | None", "Sequence[Need | None] | None", "int | None", "int | None", "int | None", "int | None"]
Content = tuple[object, ...]

NULL_NEED: Need = (None, None)


def content(row: Row) -> Content:
    """Equal for two rows that are the same operation. The order of the needs does not matter. Can be hashed."""
    _, needs, delay_ms, submitted_at_ms, quorum, volume = row
    if needs is None:
        return (submitted_at_ms, delay_ms, quorum, volume, None)
    flat: list[object] = [submitted_at_ms, delay_ms, quorum, volume]
    for need in sorted(needs, key=_need_order):
        flat += need or NULL_NEED
    return tuple(flat)


def order(row: Row) -> tuple[object, ...]:
    """The sort key of rivals. The first row counts, if it has no fault of its own; all others are rejected.

    By submission, delay, needs, quorum and volume; null sorts before any value.
    """
    _, needs, delay_ms, submitted_at_ms, quorum, volume = row
    return (
        _null_first(submitted_at_ms),
        _null_first(delay_ms),
        sorted([_need_order(need) for need in needs or ()]),
        _null_first(quorum),
        _null_first(volume),
    )


def _null_first(value: int | None) -> tuple[bool, int]:
    return (value is not None, value or 0)


def _need_order(need: Need | None) -> tuple[bool, str, bool, int]:
    key, level = need or NULL_NEED
    return (key is not None, key or "", level is not None, level or 0)
