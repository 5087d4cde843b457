"""What a purgatory tells about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dwell.timer import LATENESS_BOUNDS_MS

Outcome = Literal["completed", "expired", "cancelled"]


def place_of(ms: int) -> int:
    """Where `ms` is counted: place i is up to LATENESS_BOUNDS_MS[i] (2^i - 1), the last one is all beyond."""
    return min(ms.bit_length(), len(LATENESS_BOUNDS_MS))


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgatoryStatistics:
    """A snapshot. `completed` came true in time and `expired` did not; both counts only grow, like the other two.

    `waits` counts, by power of two (see `dwell.timer.LATENESS_BOUNDS_MS`), how long the completed and the expired
    waited, `waited_ms` is the sum; `lateness` and `late_ms` say how long after the deadline the expired did expire.
    """

    name: str
    watched: int
    delayed: int
    completed: int
    expired: int
    cancelled: int
    purged: int
    waits: tuple[int, ...]
    waited_ms: int
    lateness: tuple[int, ...]
    late_ms: int
