"""Time as a value that is passed in. Nothing in dwell reads a clock it was not given."""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol, final


class Clock(Protocol):
    """Milliseconds that never run backwards; the origin is the clock's own business."""

    def now_ms(self) -> int: ...


@final
class SystemClock:
    """The machine's monotonic clock: steps of the wall clock (NTP, suspend, a changed date) do not move it."""

    __slots__ = ()

    def now_ms(self) -> int:
        return monotonic_ns() // 1_000_000
