# cython: annotation_typing=False
"""Is a row an operation at all, and are two rows the same one? The contract's clauses on rejection and repeats."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dwell.errors import InvalidType
from dwell.ledger import item as rows
from dwell.ledger.reason import MAX_MS, MIN_MS, Reason
from dwell.ledger.value import Need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.ledger.value import Event

Content = tuple[object, ...]

NULL_NEED = Need(None)

# A Wait, or a plain tuple of the same fields.
Row = tuple["str | None", "Sequence[Need] | None", "int | None", "int | None", "int | None", "int | None"]


def fault(
    op_id: str | None,
    needs: Sequence[Need] | None,
    delay_ms: int | None,
    submitted_at_ms: int | None,
    quorum: int | None,
    volume: int | None,
) -> str | None:
    """The reason to reject this row for a fault of its own, None if it has none.

    The order of the questions is the order of `Reason`. A value of a wrong kind (a delay that is a string) is a fault
    of the program, not of the data, and raises InvalidType.
    """
    if not isinstance(op_id, str):
        _must_be_null("op_id", op_id, "a string")
        return Reason.OP_ID_NULL.text()
    if not op_id:
        return Reason.OP_ID_EMPTY.text()
    if not isinstance(submitted_at_ms, int):
        _must_be_null("submitted_at_ms", submitted_at_ms, "an integer")
        return Reason.SUBMITTED_AT_NULL.text()
    if not is_usable_time(submitted_at_ms):
        return Reason.SUBMITTED_AT_RANGE.text(submitted_at_ms)
    if not isinstance(delay_ms, int):
        _must_be_null("delay_ms", delay_ms, "an integer")
        return Reason.DELAY_NULL.text()
    if delay_ms < 0:
        return Reason.DELAY_NEGATIVE.text(delay_ms)
    if not is_usable_time(submitted_at_ms + delay_ms):
        return Reason.DEADLINE_RANGE.text(delay_ms)
    if needs is None:
        return Reason.NEEDS_NULL.text()
    if not needs:
        return Reason.NEEDS_EMPTY.text()
    return _fault_of_needs(needs) or _fault_of_condition(needs, quorum, volume)


def _fault_of_needs(needs: Sequence[Need]) -> str | None:
    has_null = has_repeat = False
    last = None
    for need in needs:
        if need is None:
            has_null = True
            continue
        if not isinstance(need, Need):
            raise InvalidType(f"needs must hold Need, not {need!r}")
        key, level = rows.item(need, 0), rows.item(need, 1)
        if key is None:
            has_null = True
        elif not isinstance(key, str):
            raise InvalidType(f"the key of a need must be a string, not {key!r}")
        if level is not None and not (isinstance(level, int) and rows.fits(level)):
            raise InvalidType(f"the level of a need must be a 64-bit integer, not {level!r}")
        has_repeat = has_repeat or key == last
        last = key
    if has_null:
        return Reason.KEY_NULL.text()
    # One need or two, the usual case, are judged by neighbours alone.
    if has_repeat or (len(needs) > 2 and len({need.key for need in needs}) < len(needs)):
        keys = sorted([str(need.key) for need in needs])
        return Reason.KEY_REPEATED.text(next(a for a, b in pairwise(keys) if a == b))
    return None


def _fault_of_condition(needs: Sequence[Need], quorum: int | None, volume: int | None) -> str | None:
    if quorum is not None:
        if not isinstance(quorum, int):
            raise InvalidType(f"quorum must be an integer, not {quorum!r}")
        if not 1 <= quorum <= len(needs):
            return Reason.QUORUM_RANGE.text(quorum)
    if volume is not None:
        if not (isinstance(volume, int) and rows.fits(volume)):
            raise InvalidType(f"volume must be a 64-bit integer, not {volume!r}")
        if volume <= 0:
            return Reason.VOLUME_NOT_POSITIVE.text(volume)
        if quorum is not None:
            return Reason.VOLUME_WITH_QUORUM.text(quorum)
        bare = [str(need.key) for need in needs if need.level is None]
        if bare:
            return Reason.VOLUME_WITHOUT_LEVEL.text(min(bare))
    return None


def is_usable_time(at_ms: int | None) -> bool:
    if not isinstance(at_ms, int) or not rows.fits(at_ms):
        return False
    number = at_ms
    return MIN_MS <= number <= MAX_MS


def is_usable_event(event: Event) -> bool:
    """False for an event to set aside: without key or time, or with a time out of range. A wrong kind raises."""
    key, at_ms = rows.item(event, 0), rows.item(event, 1)
    check_event(key, rows.item(event, 2))
    if key is None:
        return False
    if not isinstance(at_ms, int):
        _must_be_null("at_ms", at_ms, "an integer")
        return False
    return is_usable_time(at_ms)


def check_event(key: str | None, level: int | None) -> None:
    """Raise InvalidType for a key or a level of a wrong kind."""
    if not isinstance(key, str):
        _must_be_null("the key of an event", key, "a string")
    if level is not None and not (isinstance(level, int) and rows.fits(level)):
        raise InvalidType(f"the level of an event must be a 64-bit integer, not {level!r}")


def _must_be_null(field: str, value: object, kind: str) -> None:
    if value is not None:
        raise InvalidType(f"{field} must be {kind}, not {value!r}")


def content(row: Row) -> Content:
    """What makes two rows under one op_id the same operation: everything but the order of the needs."""
    _, needs, delay_ms, submitted_at_ms, quorum, volume = row
    if needs is None:
        return (submitted_at_ms, delay_ms, quorum, volume, None)
    flat: list[object] = [submitted_at_ms, delay_ms, quorum, volume]
    for need in needs if len(needs) == 1 else sorted(needs, key=_need_order):
        # A null in place of a need is read as a need with a null key.
        key, level = need or NULL_NEED
        flat.append(key)
        flat.append(level)
    return tuple(flat)


def order(row: Row) -> tuple[object, ...]:
    """Sorts rows by the contract's "First": time, delay, needs, quorum, volume, null before any value."""
    _, needs, delay_ms, submitted_at_ms, quorum, volume = row
    return (
        _null_first(submitted_at_ms),
        _null_first(delay_ms),
        tuple(sorted([_need_order(need) for need in needs or ()])),
        _null_first(quorum),
        _null_first(volume),
    )


def _null_first(value: int | None) -> tuple[bool, int]:
    return (value is not None, value or 0)


def _need_order(need: Need | None) -> tuple[bool, str, bool, int]:
    key, level = need or NULL_NEED
    return (key is not None, key or "", level is not None, level or 0)
