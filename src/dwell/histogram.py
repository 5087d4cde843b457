"""Counts by powers of two: how many values were 0, up to 1, up to 3, up to 7, and so on.

Place 0 counts zeros, place i counts values from 2^(i-1) to `BOUNDS[i]` = 2^i - 1, and the last place counts everything
beyond the last bound: in milliseconds, about 18 minutes. Counting is one shift, a snapshot is a tuple of 22 numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

BOUNDS: tuple[int, ...] = tuple((1 << power) - 1 for power in range(21))
PLACES = len(BOUNDS) + 1


def place_of(value: int) -> int:
    """Where `value` is counted. Negative values count as 0."""
    return min(max(0, value).bit_length(), PLACES - 1)


def bound_of(counts: Sequence[int], share: float) -> int | None:
    """The least bound that `share` (0..1) of all counted values keep; None if it is beyond the scale or none count."""
    total, seen = sum(counts), 0
    if not total:
        return None
    for count, bound in zip(counts, BOUNDS, strict=False):
        seen += count
        if seen >= share * total:
            return bound
    return None
