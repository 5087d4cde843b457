"""What a timer tells about itself."""

from __future__ import annotations

from dataclasses import dataclass

from dwell.histogram import BOUNDS, bound_of

# Lateness is counted by powers of two.
LATENESS_BOUNDS_MS = BOUNDS


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelStatistics:
    """One level of the wheel: its tick, how many of its buckets hold tasks, and how many tasks these are."""

    tick_ms: int
    buckets: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerStatistics:
    """A snapshot of a timer. `lateness` counts, by power of two, how long after its deadline a task was handed over."""

    pending: int
    levels: tuple[LevelStatistics, ...]
    cascades: int
    fired: int
    cancelled: int
    lateness: tuple[int, ...]

    def lateness_at_most_ms(self, share: float) -> int | None:
        """A bound that `share` (0..1) of all fired tasks kept; None if none fired or the bound is off the scale."""
        return bound_of(self.lateness, share)
