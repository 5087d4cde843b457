"""What is known of a key, and who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.contract.time_range import BEFORE_ALL
from dwell.ledger.heap import Heap

if TYPE_CHECKING:
    from dwell.ledger.operation import Operation


class KeyState:
    __slots__ = ("level", "levels", "name", "rose_at_ms", "seen_at_ms", "signals")

    def __init__(self, name: str) -> None:
        self.name = name
        self.level: int | None = None
        self.rose_at_ms = BEFORE_ALL  # when the level last rose
        self.seen_at_ms = BEFORE_ALL  # when the last event came
        # Who waits for a level, by that level.
        self.levels = Heap(lambda level, operation: operation.watched.get(name) == level)
        # Who waits for the next event, in the order of admission: a dict, so that one can leave in O(1).
        self.signals: dict[Operation, None] = {}

    def watch(self, operation: Operation, level: int | None) -> None:
        operation.watched[self.name] = level
        if level is None:
            self.signals[operation] = None
        else:
            self.levels.push(level, operation)

    def unwatch(self, operation: Operation) -> None:
        """The operation no longer waits here."""
        level = operation.watched.pop(self.name)
        if level is None:
            del self.signals[operation]
        else:
            self.levels.bury()

    def is_idle(self) -> bool:
        return not self.signals and len(self.levels.entries) == self.levels.dead
