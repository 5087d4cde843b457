"""Operations by rank (a deadline, or a level), among equals by number; `heap.pyx` is its compiled twin.

Nobody searches a heap for what was settled: its entry is counted as dead, and where the dead outnumber the living they
are cleaned out, so garbage stays within a constant factor.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dwell.ledger.operation import Operation

# Dead entries a place may hold whatever it holds alive: cleaning tiny places costs more than it frees.
TOLERATED = 16


class Heap:
    __slots__ = ("_entries", "dead")

    def __init__(self) -> None:
        self._entries: list[tuple[int, Operation]] = []
        self.dead = 0  # entries nobody waits for any more

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[tuple[int, Operation]]:
        """(rank, operation) of the living and the dead."""
        return list(self._entries)

    def has_up_to(self, rank: int) -> bool:
        """Whether the first entry has this rank or a lower one."""
        return bool(self._entries) and self._entries[0][0] <= rank

    def first_rank(self) -> int:
        """The lowest rank; there must be one."""
        return self._entries[0][0]

    def push(self, rank: int, op: Operation) -> None:
        heapq.heappush(self._entries, (rank, op))

    def pop(self) -> Operation:
        """Take out the first."""
        return heapq.heappop(self._entries)[1]

    def bury(self, key: str | None) -> None:
        """Count one entry as dead, and clean up if these outnumber the living, who wait at `key`, or for their deadline
        without one.
        """
        self.dead += 1
        if 2 * self.dead > len(self._entries) + TOLERATED:
            # A threshold that moves may come back: then its entry is there twice, and one of them is dead.
            self._entries = list({entry for entry in self._entries if entry[1].awaits(key, entry[0])})
            heapq.heapify(self._entries)
            self.dead = 0

    def unbury(self) -> None:
        """A dead entry was taken out."""
        self.dead -= 1
