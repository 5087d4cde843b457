"""Names for the shards that Spark spreads evenly over its partitions.

Spark puts a row where the hash of its grouping column says. Of the shards 0 to 7, four partitions would get 0, 1, 3 and
4, and every micro-batch would wait for the last. So a shard is not called by its number but by an integer whose hash
goes on from that of the shard before: eight shards on four partitions are two on each.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

# Numbers of partitions that divide this get their even share: all up to 10 and, further on, 12, 14, 15, 16, 18, 20 …
_CYCLE = 20_160

# Enough to find a name for each of 4,096 shards.
_NAMES = 10 * _CYCLE


@cache
def shard_names(shards: int) -> tuple[int, ...]:
    """One for each shard, the same in every version: state is kept under them. The first is 0."""
    place = spark_hash(np.arange(_NAMES, dtype=np.int32)).astype(np.int64)
    place = (place - place[0]) % _CYCLE
    places, first = np.unique(place, return_index=True)
    return tuple(first[np.searchsorted(places, np.arange(shards))].tolist())


def spark_hash(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """What Spark's `hash` says of integers: Murmur3 of their four bytes, with seed 42."""
    one = _rotated(values.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed = _rotated(np.uint32(42) ^ one, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return (mixed ^ (mixed >> np.uint32(16))).view(np.int32)


def _rotated(bits: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (bits << np.uint32(by)) | (bits >> np.uint32(32 - by))
