"""Which partition a key belongs to: the hash that Kafka's Java client uses (murmur2)."""

from __future__ import annotations

MASK = 0xFFFFFFFF
MULTIPLIER = 0x5BD1E995
SEED = 0x9747B28C
SHIFT = 24


def murmur2(data: bytes) -> int:
    """The 32-bit hash, without its sign."""
    length = len(data)
    found = SEED ^ length
    whole = length & ~3
    for place in range(0, whole, 4):
        word = int.from_bytes(data[place : place + 4], "little") * MULTIPLIER & MASK
        word ^= word >> SHIFT
        found = (found * MULTIPLIER & MASK) ^ (word * MULTIPLIER & MASK)
    rest = data[whole:]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * MULTIPLIER & MASK
    found ^= found >> 13
    found = found * MULTIPLIER & MASK
    return found ^ found >> 15


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
