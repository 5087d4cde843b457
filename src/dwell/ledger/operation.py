# cython: annotation_typing=False
"""What the engine works on: keys, deadlines, operations. State only; the engine decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.ledger.reason import MIN_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.ledger.check import Row
    from dwell.ledger.value import Outcome
    from dwell.ledger.wake import Waiter

# A time before every time the contract allows.
BEFORE_ALL = MIN_MS - 1


class Key:
    """What is known of a key, and who waits for it."""

    __slots__ = ("dead", "level", "levels", "name", "rose_at", "seen_at", "signals")

    def __init__(self, name: str) -> None:
        self.name = name
        self.level: int | None = None
        self.rose_at = BEFORE_ALL  # when the level last rose
        self.seen_at = BEFORE_ALL  # when the last event came
        self.levels: list[tuple[int, int, Operation]] = []  # heap of (threshold, operation number, operation)
        self.signals: list[Operation] = []
        self.dead = 0  # entries of both whose operation no longer waits for them

    def is_idle(self) -> bool:
        return len(self.levels) + len(self.signals) == self.dead


class Bucket:
    """The operations that wait with one deadline: a doubly linked list through them."""

    __slots__ = ("deadline_ms", "head")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.head: Operation | None = None


class Operation:
    """One operation from admission to outcome; `outcome` is None while it waits."""

    __slots__ = (
        "bucket",
        "deadline_ms",
        "keys",
        "met",
        "met_at",
        "met_by",
        "missing",
        "needs",
        "next",
        "number",
        "op_id",
        "outcome",
        "prev",
        "ripe",
        "row",
        "submitted_at_ms",
        "thresholds",
        "unmet",
        "volume",
        "waiters",
    )

    def __init__(
        self, row: Row, op_id: str, needs: Sequence[tuple[str, int | None]], submitted_at_ms: int, number: int
    ) -> None:
        self.row = row  # as it was given, for the rule on repeats
        self.op_id = op_id
        self.needs = needs
        self.submitted_at_ms = submitted_at_ms
        self.volume = 0  # 0: none asked for
        self.number = number
        self.deadline_ms = BEFORE_ALL
        self.keys: list[Key] | None = None  # in the order of the needs, while it waits
        self.missing = 0  # needs still to be met for completion; unused with a volume
        self.unmet = 0  # needs not met, whether they are still missing or not; unused with a volume
        self.met: dict[str, int] | None = None  # key -> since when, while there are others unmet
        self.met_at = BEFORE_ALL  # the last time a need was met, and the smallest key met then
        self.met_by = ""
        self.thresholds: list[int | None] | None = None  # with a volume: the level each key is watched for
        self.ripe = False  # will be settled at the end of the instant
        self.bucket: Bucket | None = None  # while it waits, and its neighbours there
        self.prev: Operation | None = None
        self.next: Operation | None = None
        self.outcome: Outcome | None = None
        self.waiters: list[Waiter] | None = None  # the host's: whom to wake; the engine never looks at it
