"""A heap of waiting operations in which nobody searches for those that are settled.

The entry of an operation that no longer waits stays where it is and is counted as dead. Where the dead outnumber the
living the heap is rebuilt without them, so garbage stays within a constant factor.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dwell.ledger.operation import Operation

# How many dead entries a heap may hold however few are alive: rebuilding tiny heaps costs more than it frees.
TOLERATED = 16

Entry = tuple[int, int, "Operation"]  # rank (a deadline or a level), number of the operation, operation


class Heap:
    """Operations by rank, equal ranks in the order of admission. `is_alive` tells a live entry from a dead one."""

    __slots__ = ("_is_alive", "dead", "entries")

    def __init__(self, is_alive: Callable[[int, Operation], bool]) -> None:
        self._is_alive = is_alive
        self.entries: list[Entry] = []
        self.dead = 0

    def push(self, rank: int, operation: Operation) -> None:
        heapq.heappush(self.entries, (rank, operation.number, operation))

    def has_up_to(self, rank: int) -> bool:
        """Whether the first entry has this rank or a lower one."""
        return bool(self.entries) and self.entries[0][0] <= rank

    def pop(self) -> Operation | None:
        """Take out the first entry. None if it was dead."""
        rank, _, operation = heapq.heappop(self.entries)
        if self._is_alive(rank, operation):
            self._drop_dead()
            return operation
        self.dead -= 1
        return None

    def bury(self) -> None:
        """Count one more entry as dead."""
        self.dead += 1
        self._drop_dead()

    def _drop_dead(self) -> None:
        if 2 * self.dead > len(self.entries) + TOLERATED:
            # A threshold that moves may come back: its entry is then there twice, and one of the two is dead.
            self.entries = list({entry for entry in self.entries if self._is_alive(entry[0], entry[2])})
            heapq.heapify(self.entries)
            self.dead = 0
