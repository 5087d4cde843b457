"""What a timer tells about itself."""

from __future__ import annotations

from dataclasses import dataclass

# Lateness is counted in powers of two: lateness[0] is on time, lateness[i] is up to LATENESS_BOUNDS_MS[i] = 2^i - 1,
# and the last one is everything beyond the last bound (about 18 minutes).
LATENESS_BOUNDS_MS: tuple[int, ...] = tuple((1 << i) - 1 for i in range(21))


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
        needed, seen = share * self.fired, 0
        for count, bound_ms in zip(self.lateness, LATENESS_BOUNDS_MS, strict=False):
            seen += count
            if self.fired and seen >= needed:
                return bound_ms
        return None
