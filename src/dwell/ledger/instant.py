"""The time by a clock. Compiled, the system clock is read without a Python call: see `instant.pxd`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dwell.clock import Clock


def now_ms(clock: Clock, is_system: bool) -> int:
    return clock.now_ms()
