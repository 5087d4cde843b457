# cython: annotation_typing=False, boundscheck=False, wraparound=False
"""What the engine works on: operations, heaps of them, keys. State only; the engine decides.

None of these refers back to what holds it, so the compiled build keeps them away from the cyclic collector. Only
waiters can close a circle; an outcome, or closing the ledger, opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.ledger import item as rows
from dwell.ledger.reason import MIN_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cython  # type: ignore[import-untyped]

    from dwell.ledger.check import Row
    from dwell.ledger.value import Need, Outcome
    from dwell.ledger.wake import Waiter

else:
    from dwell.ledger import directive as cython

# A time before every time the contract allows.
BEFORE_ALL = MIN_MS - 1

# Dead entries a place may hold whatever it holds alive: cleaning tiny places costs more than it frees.
TOLERATED = 16


@cython.no_gc
@cython.cclass
class Operation:
    """One operation from admission to outcome; `outcome` is None while it waits."""

    __slots__ = (
        "deadline_ms",
        "met",
        "met_at",
        "met_by",
        "missing",
        "needs",
        "number",
        "op_id",
        "outcome",
        "queued",
        "ripe",
        "row",
        "submitted_at_ms",
        "thresholds",
        "unmet",
        "waiters",
    )

    row: Row  # as it was given, for the rule on repeats
    op_id: str
    needs: Sequence[Need]
    submitted_at_ms: int
    number: int  # in the order of admission
    deadline_ms: int  # BEFORE_ALL: not started
    missing: int  # needs still to be met for completion; unused with a volume
    unmet: int  # needs not met, whether they are still missing or not; unused with a volume
    met: list[int | None] | None  # since when each need is met, once some are
    met_at: int  # the last time a need was met, and the smallest key met then
    met_by: str
    thresholds: list[int | None] | None  # with a volume: the level each key is watched for
    queued: bool  # it has a place among the deadlines
    ripe: bool  # will be settled at the end of the instant
    outcome: Outcome | None
    waiters: Waiter | list[Waiter] | None  # the host's: whom to wake, a list if several; the engine never looks at it


def make_operation(row: Row, op_id: Any, needs: Sequence[Need], submitted_at_ms: int, number: int) -> Operation:
    # Not a constructor: compiled, this is a plain call, and its numbers are never boxed.
    op = Operation.__new__(Operation)
    op.row = row
    op.op_id = op_id
    op.needs = needs
    op.submitted_at_ms = submitted_at_ms
    op.number = number
    op.deadline_ms = BEFORE_ALL
    op.missing = op.unmet = 0
    op.met = None
    op.met_at = BEFORE_ALL
    op.met_by = ""
    op.thresholds = None
    op.queued = op.ripe = False
    op.outcome = None
    op.waiters = None
    return op


def place_of(op: Operation, name: str) -> int:
    """Which of the needs is the one at this key."""
    place = 0
    for need in op.needs:
        if rows.item(need, 0) == name:
            break
        place += 1
    return place


def is_awaited(op: Operation, name: str, level: int) -> bool:
    """Whether an operation without outcome waits for this level of the key; a volume's threshold may have moved."""
    return op.thresholds is None or op.thresholds[place_of(op, name)] == level


@cython.no_gc
@cython.cclass
class Heap:
    """Operations by rank, among equals by number. Two lists side by side: an entry is no object of its own."""

    __slots__ = ("dead", "operations", "ranks")

    def __init__(self) -> None:
        self.ranks: list[int] = []
        self.operations: list[Operation] = []
        self.dead = 0  # entries nobody waits for any more

    def push(self, rank: int, op: Operation) -> None:
        ranks, operations = self.ranks, self.operations
        place = len(ranks)
        ranks.append(rank)
        operations.append(op)
        while place > 0:
            parent = (place - 1) >> 1
            above: Operation = operations[parent]
            if not _precedes(rank, op, ranks[parent], above):
                break
            ranks[place] = ranks[parent]
            operations[place] = above
            place = parent
        ranks[place] = rank
        operations[place] = op

    def pop(self) -> Operation:
        """Take out the first, whose rank is `ranks[0]`."""
        ranks, operations = self.ranks, self.operations
        rank = ranks.pop()
        op: Operation = operations.pop()
        count = len(ranks)
        if count == 0:
            return op
        first: Operation = operations[0]
        place = 0
        while (child := 2 * place + 1) < count:
            below: Operation = operations[child]
            if child + 1 < count:
                right: Operation = operations[child + 1]
                if _precedes(ranks[child + 1], right, ranks[child], below):
                    child += 1
                    below = right
            if not _precedes(ranks[child], below, rank, op):
                break
            ranks[place] = ranks[child]
            operations[place] = below
            place = child
        ranks[place] = rank
        operations[place] = op
        return first

    def bury(self, name: str | None) -> None:
        """Count one entry as dead. Where they outnumber the living keep only who still waits: for this key, or for
        the deadline without one.
        """
        self.dead += 1
        if 2 * self.dead <= len(self.ranks) + TOLERATED:
            return
        ranks, operations = self.ranks, self.operations
        self.ranks, self.operations, self.dead = [], [], 0
        for i in range(len(ranks)):
            op: Operation = operations[i]
            if op.outcome is None and (name is None or is_awaited(op, name, ranks[i])):
                self.push(ranks[i], op)


def _precedes(rank: int, op: Operation, other_rank: int, other: Operation) -> bool:
    return rank < other_rank or (rank == other_rank and op.number < other.number)


@cython.no_gc
@cython.cclass
class Key:
    """What is known of a key, and who waits for it."""

    __slots__ = ("dead", "level", "levels", "name", "rose_at", "seen_at", "signal", "signals")

    name: str
    level: int | None
    rose_at: int  # when the level last rose
    seen_at: int  # when the last event came
    levels: Heap | None  # who waits for a level, by that level
    signal: Operation | None  # who waits for the next event: usually one, so the first needs no list
    signals: list[Operation] | None  # the others
    dead: int  # of these two, how many wait no more

    def watch(self, level: int | None, op: Operation) -> None:
        """Have the operation wait for a level, or for the next event."""
        if level is not None:
            if self.levels is None:
                self.levels = Heap()
            self.levels.push(level, op)
        elif self.signal is None:
            self.signal = op
        elif self.signals is None:
            self.signals = [op]
        else:
            self.signals.append(op)

    def bury(self, is_signal: bool) -> None:
        """Count one who waits for the next event, or for a level, as dead; where these outnumber the living keep only
        the living.
        """
        if not is_signal:
            assert self.levels is not None
            self.levels.bury(self.name)
            return
        self.dead += 1
        if 2 * self.dead > self.count_signals() + TOLERATED:
            living = [op for op in (self.signal, *(self.signals or ())) if op is not None and op.outcome is None]
            self.signal = living[0] if living else None
            self.signals = living[1:] or None
            self.dead = 0

    def is_idle(self) -> bool:
        if self.levels is not None and len(self.levels.ranks) > self.levels.dead:
            return False
        return self.count_signals() == self.dead

    def count_signals(self) -> int:
        if self.signal is None:
            return 0
        return 1 if self.signals is None else 1 + len(self.signals)


def make_key(name: str) -> Key:
    key = Key.__new__(Key)
    key.name = name
    key.level = None
    key.rose_at = key.seen_at = BEFORE_ALL
    key.levels = None
    key.signal = None
    key.signals = None
    key.dead = 0
    return key
