"""Rows as the tuples they are: a field by its place, an outcome from its fields.

Compiled code is slow at unpacking, indexing and making named tuples; `item.pxd` has what serves it instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dwell.ledger.value import Outcome, Settled

MIN_LEVEL = -(2**63)
MAX_LEVEL = 2**63 - 1


def item(row: Any, place: int) -> Any:
    return row[place]


def fits(number: int) -> bool:
    """Whether it is one of the 64-bit integers that levels and volumes are."""
    return MIN_LEVEL <= number <= MAX_LEVEL


def finished(
    row_type: type[Outcome],
    op_id: str,
    outcome: Settled,
    finished_at_ms: int,
    waited_ms: int,
    completed_by: str | None,
) -> Outcome:
    """The row of an operation that was neither rejected nor left pending."""
    return row_type(op_id, outcome, finished_at_ms, waited_ms, completed_by, None)
