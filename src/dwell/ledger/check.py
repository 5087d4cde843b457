"""Is a row an operation at all, and are two rows the same one? The contract's clauses on rejection and repeats."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from dwell.errors import InvalidType
from dwell.ledger.reason import MAX_MS, MIN_MS, Reason
from dwell.ledger.value import Need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.ledger.value import Event, Wait

Content = tuple[object, ...]


class SoundNeed(Protocol):
    """A need of an operation that was found to have no fault."""

    @property
    def key(self) -> str: ...
    @property
    def level(self) -> int | None: ...


class SoundWait(Protocol):
    """An operation that was found to have no fault: what may not be null is not."""

    @property
    def op_id(self) -> str: ...
    @property
    def needs(self) -> Sequence[SoundNeed]: ...
    @property
    def delay_ms(self) -> int: ...
    @property
    def submitted_at_ms(self) -> int: ...
    @property
    def quorum(self) -> int | None: ...
    @property
    def volume(self) -> int | None: ...


def fault(wait: Wait) -> str | None:
    """The reason to reject this row for a fault of its own, None if it has none.

    The order of the questions is the order of `Reason`. A value of a wrong kind (a delay that is a string) is a fault
    of the program, not of the data, and raises InvalidType.
    """
    op_id, needs, delay_ms, submitted_at_ms, quorum, volume = wait
    if not isinstance(op_id, str):
        _must_be_null("op_id", op_id, "a string")
        return Reason.OP_ID_NULL.text()
    if not op_id:
        return Reason.OP_ID_EMPTY.text()
    if not isinstance(submitted_at_ms, int):
        _must_be_null("submitted_at_ms", submitted_at_ms, "an integer")
        return Reason.SUBMITTED_AT_NULL.text()
    if not MIN_MS <= submitted_at_ms <= MAX_MS:
        return Reason.SUBMITTED_AT_RANGE.text(submitted_at_ms)
    if not isinstance(delay_ms, int):
        _must_be_null("delay_ms", delay_ms, "an integer")
        return Reason.DELAY_NULL.text()
    if delay_ms < 0:
        return Reason.DELAY_NEGATIVE.text(delay_ms)
    if submitted_at_ms + delay_ms > MAX_MS:
        return Reason.DEADLINE_RANGE.text(delay_ms)
    if needs is None:
        return Reason.NEEDS_NULL.text()
    if not needs:
        return Reason.NEEDS_EMPTY.text()
    return _fault_of_needs(needs) or _fault_of_condition(needs, quorum, volume)


def _fault_of_needs(needs: Sequence[Need]) -> str | None:
    null = False
    for need in needs:
        if need is not None and not isinstance(need, Need):
            raise InvalidType(f"needs must hold Need, not {need!r}")
        if need is None or need.key is None:
            null = True
        elif not isinstance(need.key, str):
            raise InvalidType(f"the key of a need must be a string, not {need.key!r}")
        elif need.level is not None and not isinstance(need.level, int):
            raise InvalidType(f"the level of a need must be an integer, not {need.level!r}")
    if null:
        return Reason.KEY_NULL.text()
    if len(needs) > 1 and len({need.key for need in needs}) < len(needs):
        keys = sorted(str(need.key) for need in needs)
        return Reason.KEY_REPEATED.text(next(a for a, b in pairwise(keys) if a == b))
    return None


def _fault_of_condition(needs: Sequence[Need], quorum: int | None, volume: int | None) -> str | None:
    if quorum is not None:
        if not isinstance(quorum, int):
            raise InvalidType(f"quorum must be an integer, not {quorum!r}")
        if not 1 <= quorum <= len(needs):
            return Reason.QUORUM_RANGE.text(quorum)
    if volume is not None:
        if not isinstance(volume, int):
            raise InvalidType(f"volume must be an integer, not {volume!r}")
        if volume <= 0:
            return Reason.VOLUME_NOT_POSITIVE.text(volume)
        if quorum is not None:
            return Reason.VOLUME_WITH_QUORUM.text(quorum)
        bare = [str(need.key) for need in needs if need.level is None]
        if bare:
            return Reason.VOLUME_WITHOUT_LEVEL.text(min(bare))
    return None


def is_usable_time(at_ms: int | None) -> bool:
    return isinstance(at_ms, int) and MIN_MS <= at_ms <= MAX_MS


def is_usable_event(event: Event) -> bool:
    """False for an event to set aside: without key or time, or with a time out of range. A wrong kind raises."""
    key, at_ms, level = event
    if not isinstance(key, str):
        _must_be_null("the key of an event", key, "a string")
        return False
    if level is not None and not isinstance(level, int):
        raise InvalidType(f"the level of an event must be an integer, not {level!r}")
    if not isinstance(at_ms, int):
        _must_be_null("at_ms", at_ms, "an integer")
        return False
    return MIN_MS <= at_ms <= MAX_MS


def _must_be_null(field: str, value: object, kind: str) -> None:
    if value is not None:
        raise InvalidType(f"{field} must be {kind}, not {value!r}")


def content(wait: Wait | SoundWait) -> Content:
    """What makes two rows under one op_id the same operation: everything but the order of the needs.

    Contents of rows without faults compare in the order of the contract's "First": time, delay, needs, quorum, volume,
    null before any value.
    """
    needs = None if wait.needs is None else tuple(sorted(_need_order(need) for need in wait.needs))
    return (
        _null_first(wait.submitted_at_ms),
        _null_first(wait.delay_ms),
        (needs is not None, needs),
        _null_first(wait.quorum),
        _null_first(wait.volume),
    )


def _null_first(value: int | None) -> tuple[bool, int]:
    return (value is not None, value or 0)


def _need_order(need: Need | SoundNeed | None) -> tuple[bool, str, bool, int]:
    # A null in place of a need is read as a need with a null key.
    if need is None:
        return (False, "", False, 0)
    return (need.key is not None, need.key or "", need.level is not None, need.level or 0)
