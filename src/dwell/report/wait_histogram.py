"""Millions of waits in a few thousand counters: each is known to one part in a thousand.

Values below 2^11 have a counter each. Above, every power of two is cut into 2^10 counters of equal width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BITS = 10
SIZE = (64 - BITS) << BITS


class WaitHistogram:
    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(SIZE, np.int64)

    def add(self, waits_ms: NDArray[np.int64]) -> None:
        if len(waits_ms):
            self.counts += np.bincount(place_of(waits_ms), minlength=SIZE)

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def percentile(self, share: float) -> int:
        """The wait `share` (0 to 1) of all did not exceed, rounded up by at most a thousandth; 0 if there are none."""
        if not self.total:
            return 0
        needed = max(1, int(np.ceil(share * self.total)))
        return int(ends()[int(np.searchsorted(np.cumsum(self.counts), needed))]) - 1

    def within(self, bounds_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many waited no longer than each bound."""
        upto = np.concatenate([[0], np.cumsum(self.counts)])
        return np.asarray(upto[np.searchsorted(ends(), bounds_ms + 1, side="right")])


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
    # Counters 0 to 2^11 - 1 are one wide; then each 2^10 counters are twice as wide as those before.
    shift = np.maximum((places >> BITS) - 1, 0)
    within = places - (shift << BITS)
    with np.errstate(over="ignore"):
        found = (within + 1) << shift
    return np.where((found <= 0) | (shift > 52), np.iinfo(np.int64).max, found)


_ENDS = _make_ends()
