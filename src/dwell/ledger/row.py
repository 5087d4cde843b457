"""Waits, events and outcomes as rows: named tuples, so they are frozen, small and quick to make.

Fields that a table may leave null are `None` here too. A row is judged when it is opened, not when it is made: what the
contract calls a fault becomes a rejected outcome, never an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.contract.columns import OutcomeName


class Need(NamedTuple):
    """One key to wait for: until its level is at least `level`; without a level, until its next event (a signal)."""

    key: str | None
    level: int | None = None


class Wait(NamedTuple):
    """One operation: what it needs and how long it waits for it.

    `quorum`: so many needs suffice (None: all, 1: any). `volume`: instead, the keys' levels must together exceed the
    needs' levels by this much.
    """

    op_id: str | None
    needs: Sequence[Need] | None
    delay_ms: int | None
    submitted_at_ms: int | None
    quorum: int | None = None
    volume: int | None = None


class Event(NamedTuple):
    """Something happened to a key; with a level, the key's level is now at least that."""

    key: str | None
    at_ms: int | None
    level: int | None = None


class Outcome(NamedTuple):
    """What became of an operation.

    `finished_at_ms` and `waited_ms` are None for rejected and pending operations; `completed_by` is a key of completed
    ones; `reason` says why a rejected one was rejected. Only a live ledger says "cancelled"; only replay "pending".
    """

    op_id: str | None
    outcome: OutcomeName
    finished_at_ms: int | None = None
    waited_ms: int | None = None
    completed_by: str | None = None
    reason: str | None = None
