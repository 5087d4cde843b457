"""Which rows are admitted: the contract's clauses on rejection.

A fault of the data (a negative delay) is a reason to reject the row. A fault of the program (a delay that is a string)
raises InvalidType.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dwell.contract.columns import is_bigint
from dwell.contract.reason import Reason
from dwell.contract.time_range import MAX_MS, MIN_MS, is_usable_time
from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger.row import Need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.ledger.row import Event


def fault(
    op_id: str | None,
    needs: Sequence[Need] | None,
    delay_ms: int | None,
    submitted_at_ms: int | None,
    quorum: int | None,
    volume: int | None,
) -> str | None:
    """The reason to reject this row for a fault of its own, None if it has none.

    The order of the questions is the order of `Reason`.
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


def _fault_of_needs(needs: Sequence[Need | None]) -> str | None:
    keys: list[str | None] = []
    for need in needs:
        if need is None:
            keys.append(None)
            continue
        if not isinstance(need, Need):
            raise InvalidType(f"needs must hold Need, not {need!r}")
        if need.key is not None and not isinstance(need.key, str):
            raise InvalidType(f"the key of a need must be a string, not {need.key!r}")
        if need.level is not None and not is_bigint(need.level):
            raise InvalidType(f"the level of a need must be a 64-bit integer, not {need.level!r}")
        keys.append(None if need.key is None else plain_text(need.key))
    if None in keys:
        return Reason.KEY_NULL.text()
    if len(set(keys)) < len(keys):
        in_order = sorted([str(key) for key in keys])
        return Reason.KEY_REPEATED.text(next(key for key, following in pairwise(in_order) if key == following))
    return None


def _fault_of_condition(needs: Sequence[Need], quorum: int | None, volume: int | None) -> str | None:
    if quorum is not None:
        if not isinstance(quorum, int):
            raise InvalidType(f"quorum must be an integer, not {quorum!r}")
        if not 1 <= quorum <= len(needs):
            return Reason.QUORUM_RANGE.text(quorum)
    if volume is not None:
        if not is_bigint(volume):
            raise InvalidType(f"volume must be a 64-bit integer, not {volume!r}")
        if volume <= 0:
            return Reason.VOLUME_NOT_POSITIVE.text(volume)
        if quorum is not None:
            return Reason.VOLUME_WITH_QUORUM.text(quorum)
        if without_level := [str(need.key) for need in needs if need.level is None]:
            return Reason.VOLUME_WITHOUT_LEVEL.text(min(without_level))
    return None


def is_usable_event(event: Event) -> bool:
    """False for an event to set aside: without key or time, or with a time out of range. A wrong kind raises."""
    check_event(event.key, event.level)
    if not isinstance(event.at_ms, int):
        _must_be_null("at_ms", event.at_ms, "an integer")
    return event.key is not None and is_usable_time(event.at_ms)


def check_event(key: str | None, level: int | None) -> None:
    """Raise InvalidType for a key or a level of a wrong kind."""
    if not isinstance(key, str):
        _must_be_null("the key of an event", key, "a string")
    if level is not None and not is_bigint(level):
        raise InvalidType(f"the level of an event must be a 64-bit integer, not {level!r}")


def _must_be_null(field: str, value: object, kind: str) -> None:
    if value is not None:
        raise InvalidType(f"{field} must be {kind}, not {value!r}")


def plain_text(text: str) -> str:
    """The same text as a `str` and no subclass, so that comparing and hashing it runs nobody's code."""
    return text if type(text) is str else str.__str__(text)


def plain_number(number: int) -> int:
    """The same number as an `int` and no subclass."""
    return number if type(number) is int else int.__index__(number)


def plain_needs(needs: Sequence[Need]) -> tuple[Need, ...]:
    """Needs without a fault, with keys and levels that are `str` and `int` and no subclass."""
    return tuple([_plain_need(need) for need in needs])


def _plain_need(need: Need) -> Need:
    key, level = need
    if type(key) is str and (level is None or type(level) is int):
        return need
    assert key is not None
    return Need(plain_text(key), None if level is None else plain_number(level))


def retention(retention_ms: int | None, field: str) -> int | None:
    """How long to remember, at most the span of all times; None: for ever."""
    if retention_ms is None:
        return None
    if not isinstance(retention_ms, int):
        raise InvalidType(f"{field} must be an integer or None, not {retention_ms!r}")
    if retention_ms < 0:
        raise InvalidArgument(f"{field} must not be negative, not {retention_ms}")
    return min(retention_ms, MAX_MS - MIN_MS)
