"""Millions of waits in some thousand counters: each is known to one part in eight thousand.

Values below 2^14 have a counter each. Above, every power of two is cut into 2^13 counters of equal width. Histograms
can be added up, so that a stream need not look again at what it has counted. Whoever says a percentile of waits (the
summary of `settle` on every engine, the report) takes it from here: the same outcomes have the same percentiles.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

BITS = 13
SIZE = (64 - BITS) << BITS

# The percentiles a summary has.
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


class WaitHistogram:
    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(SIZE, np.int64)
        self.longest = 0

    def add(self, waits_ms: NDArray[np.int64]) -> None:
        if len(waits_ms):
            self.counts += np.bincount(place_of(waits_ms), minlength=SIZE)
            self.longest = max(self.longest, int(waits_ms.max()))

    def add_counted(self, counts: Mapping[int, int], longest: int) -> None:
        """Waits that were counted elsewhere: how many each counter has, by its place, and the longest of them."""
        np.add.at(self.counts, np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64))
        self.longest = max(self.longest, longest)

    def counted(self) -> dict[int, int]:
        """What `add_counted` takes; counters with nothing in them are left out."""
        used = np.flatnonzero(self.counts)
        return dict(zip(used.tolist(), self.counts[used].tolist(), strict=True))

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def percentile(self, share: float) -> int:
        """The wait `share` (0 to 1) of all did not exceed, rounded up by less than 1/8000; 0 if there are none."""
        if not self.total:
            return 0
        end = int(ends()[int(np.searchsorted(np.cumsum(self.counts), rank(share, self.total)))])
        return min(end - 1, self.longest)

    def percentiles(self) -> dict[str, int]:
        """Those of `PERCENTILES` by their names; empty if there are no waits."""
        return {name: self.percentile(share) for name, share in PERCENTILES.items()} if self.total else {}

    def within(self, bounds_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many waited no longer than each bound."""
        upto = np.concatenate([[0], np.cumsum(self.counts)])
        return np.asarray(upto[np.searchsorted(ends(), bounds_ms + 1, side="right")])


def rank(share: float, total: int) -> int:
    """How many of `total` are a share of them, rounded up, and one at least. As written: 0.07 of 100 are 7, not 8."""
    return max(1, ceil(Fraction(str(share)) * total))


def place_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which counter counts a value."""
    # frexp says the power of two exactly, where log2 may round up just below one.
    power = np.frexp(np.maximum(values, 1).astype(np.float64))[1] - 1
    shift = np.maximum(power - BITS, 0)
    return np.asarray((shift << BITS) + (values >> shift), np.int64)


def ends() -> NDArray[Any]:
    """The first value beyond each counter."""
    return _ENDS


def _make_ends() -> NDArray[Any]:
    places = np.arange(SIZE, dtype=np.int64)
    # Counters 0 to 2^14 - 1 are one wide; then each 2^13 counters are twice as wide as those before.
    shift = np.maximum((places >> BITS) - 1, 0)
    within = places - (shift << BITS)
    with np.errstate(over="ignore"):
        found = (within + 1) << shift
    return np.where((found <= 0) | (shift > 62 - BITS), np.iinfo(np.int64).max, found)


_ENDS = _make_ends()
