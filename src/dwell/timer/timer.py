"""What a purgatory needs of a timer."""

from __future__ import annotations

from typing import Protocol

from dwell.timer.task import TimerTask


class Timer(Protocol):
    """Any timer will do: `SystemTimer`, `LoopTimer`, or one of your own."""

    def add(self, task: TimerTask) -> None: ...
    def advance_clock(self, timeout_ms: int) -> bool: ...
    @property
    def size(self) -> int: ...
    def close(self) -> None: ...
