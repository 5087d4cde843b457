# cython: annotation_typing=False, boundscheck=False, wraparound=False
"""One operation, from admission to what became of it. State only; the engine decides.

It refers to nothing that refers back to it, so the compiled build keeps it away from the cyclic collector. Only waiters
can close a circle; an outcome, or closing the ledger, opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.ledger import item as rows
from dwell.ledger.reason import BEFORE_ALL
from dwell.ledger.value import COMPLETED, PENDING, REJECTED, Outcome

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]

    from dwell.ledger.value import Need, Settled
    from dwell.ledger.wake import Waiter

else:
    from dwell.ledger import directive as cython


@cython.no_gc
@cython.cclass
class Operation:
    """`outcome` is None while it waits."""

    __slots__ = (
        "deadline_ms",
        "finished_at_ms",
        "met",
        "met_at",
        "met_by",
        "missing",
        "needs",
        "number",
        "op_id",
        "outcome",
        "queued",
        "quorum",
        "reason",
        "ripe",
        "submitted_at_ms",
        "thresholds",
        "unmet",
        "volume",
        "waiters",
    )

    op_id: str
    needs: tuple[Need, ...]  # these, the times, quorum and volume are kept after the outcome for the rule on repeats
    quorum: int | None
    volume: int | None
    submitted_at_ms: int
    deadline_ms: int
    number: int  # in the order of admission
    missing: int  # needs still to be met for completion; unused with a volume
    unmet: int  # needs not met, whether they are still missing or not; unused with a volume
    met_at: int  # the last time a need was met, and the smallest key met then
    met_by: str | None
    met: list[int | None] | None  # since when each need is met, once two are and some are not; see `met_since`
    thresholds: list[int | None] | None  # with a volume: the level each key is watched for
    queued: bool  # it has a place among the deadlines
    ripe: bool  # will be settled at the end of the instant
    outcome: Settled | None
    finished_at_ms: int  # of a rejected one, when it was rejected
    reason: str | None
    waiters: Waiter | list[Waiter] | None  # the host's: whom to wake, a list if several; the engine never looks at it

    def __lt__(self, other: Operation) -> bool:
        return self.number < other.number

    def awaits(self, key: str | None, rank: int) -> bool:
        """Whether an entry of this rank at the key is of use; without a key, one among the deadlines. The threshold of
        a volume may have moved since.
        """
        if self.outcome is not None:
            return False
        return key is None or self.thresholds is None or self.thresholds[self.place_of(key)] == rank

    def place_of(self, key: str) -> int:
        """Which of the needs is the one at this key."""
        place = 0
        for need in self.needs:
            if rows.item(need, 0) == key:
                break
            place += 1
        return place

    def met_since(self, place: int) -> int | None:
        """Since when this need is met, None if it is not; unused with a volume."""
        if self.met is not None:
            return self.met[place]
        # At most one is met, so it is the one met last.
        if self.unmet < len(self.needs) and rows.item(self.needs[place], 0) == self.met_by:
            return self.met_at
        return None

    def row(self) -> Outcome:
        """What became of it, as a row."""
        outcome: Any = self.outcome
        if outcome is REJECTED or outcome is PENDING:
            return Outcome(self.op_id, outcome, reason=self.reason)
        waited_ms = self.finished_at_ms - self.submitted_at_ms
        by = self.met_by if outcome is COMPLETED else None
        return rows.finished(Outcome, self.op_id, outcome, self.finished_at_ms, waited_ms, by)


def make_operation(op_id: Any, number: int) -> Operation:
    # Not a constructor: compiled, this is a plain call, and its numbers are never boxed.
    op = Operation.__new__(Operation)
    op.op_id = op_id
    op.needs = ()
    op.quorum = op.volume = None
    op.submitted_at_ms = op.deadline_ms = op.met_at = op.finished_at_ms = BEFORE_ALL
    op.number = number
    op.missing = op.unmet = 0
    op.met_by = None
    op.met = op.thresholds = None
    op.queued = op.ripe = False
    op.outcome = None
    op.reason = None
    op.waiters = None
    return op
