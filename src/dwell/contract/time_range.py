"""The times an operation or an event may have: whole milliseconds since 1970 in the years 1 to 9999 (UTC).

Every engine, Python's `datetime` and Spark's `timestamp` can hold them.
"""

from __future__ import annotations

# 0001-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z.
MIN_MS = -62_135_596_800_000
MAX_MS = 253_402_300_799_999

# A time before, and one after, every time the contract allows.
BEFORE_ALL = MIN_MS - 1
AFTER_ALL = MAX_MS + 1


def is_usable_time(at_ms: int | None) -> bool:
    return isinstance(at_ms, int) and MIN_MS <= at_ms <= MAX_MS
