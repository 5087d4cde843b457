"""CRC-32C, the checksum of a batch."""

from __future__ import annotations

from dwell.errors import MissingExtra

try:
    import google_crc32c
except ImportError as error:
    # One in pure Python is a thousand times slower: a broker that computed it would be of no use.
    raise MissingExtra("dwell.broker needs google-crc32c: pip install 'dwell[broker]'") from error


def crc32c(data: bytes) -> int:
    """The checksum of `data`. The library takes `bytes` and nothing else."""
    return int(google_crc32c.value(data))
