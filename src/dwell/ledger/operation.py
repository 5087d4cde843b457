"""One operation, from admission to what became of it. State only; the engine decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.contract.columns import COMPLETED, PENDING, REJECTED
from dwell.contract.time_range import BEFORE_ALL
from dwell.ledger.row import Outcome

if TYPE_CHECKING:
    from dwell.contract.columns import OutcomeName
    from dwell.ledger.notify import Waiter
    from dwell.ledger.row import Need


class Operation:
    """`outcome` is None while it waits."""

    __slots__ = (
        "deadline_ms",
        "finished_at_ms",
        "is_ripe",
        "met",
        "met_by",
        "missing",
        "needs",
        "number",
        "op_id",
        "outcome",
        "quorum",
        "reason",
        "submitted_at_ms",
        "volume",
        "waiters",
        "watched",
    )

    def __init__(
        self,
        number: int,
        op_id: str | None,
        needs: tuple[Need, ...] = (),
        submitted_at_ms: int = BEFORE_ALL,
        delay_ms: int = 0,
        quorum: int | None = None,
        volume: int | None = None,
    ) -> None:
        self.number = number  # in the order of admission
        self.op_id = op_id
        # What was asked for. Kept after the outcome, for the rule on repeats.
        self.needs = needs
        self.submitted_at_ms = submitted_at_ms
        self.deadline_ms = submitted_at_ms + delay_ms
        self.quorum = quorum
        self.volume = volume
        # Where it still waits: by key the level it waits for, None for a signal. With a volume the levels are
        # thresholds.
        self.watched: dict[str, int | None] = {}
        # Since when each need is met, by key; unused with a volume.
        self.met: dict[str, int] = {}
        # How many more needs must be met; unused with a volume.
        self.missing = len(needs) if quorum is None else quorum
        # The condition holds: it completes at the end of the instant.
        self.is_ripe = False
        self.outcome: OutcomeName | None = None
        self.finished_at_ms = BEFORE_ALL  # of a rejected one, when it was rejected
        self.met_by: str | None = None
        self.reason: str | None = None
        # Whom to tell of the outcome; belongs to the live ledger.
        self.waiters: dict[Waiter, None] | None = None

    def row(self) -> Outcome:
        """What became of it."""
        assert self.outcome is not None
        if self.outcome in (REJECTED, PENDING):
            return Outcome(self.op_id, self.outcome, reason=self.reason)
        waited_ms = self.finished_at_ms - self.submitted_at_ms
        by = self.met_by if self.outcome == COMPLETED else None
        return Outcome(self.op_id, self.outcome, self.finished_at_ms, waited_ms, by)
