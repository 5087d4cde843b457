"""Time as a value that is passed in: timers, purgatories and ledgers take a `Clock`, `SystemClock` by default."""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol, final

from dwell.errors import InvalidArgument


class Clock(Protocol):
    """Milliseconds that never run backwards; the origin is the clock's own business."""

    def now_ms(self) -> int: ...


@final
class SystemClock:
    """The machine's monotonic clock: steps of the wall clock (NTP, suspend, a changed date) do not move it."""

    __slots__ = ()

    def now_ms(self) -> int:
        return monotonic_ns() // 1_000_000

    def end_ms(self) -> int:
        """The current time rounded up, so that a delay never ends early."""
        return -(-monotonic_ns() // 1_000_000)


@final
class ManualClock:
    """A clock that stands still until a test moves it."""

    __slots__ = ("_now_ms",)

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Move forward by `ms`; a clock never runs backwards."""
        if ms < 0:
            raise InvalidArgument(f"ms must not be negative: a clock does not run backwards, not by {ms}")
        self._now_ms += ms

    def __repr__(self) -> str:
        return f"<ManualClock {self._now_ms} ms>"
