"""The timer of the build that runs."""

from __future__ import annotations

from dwell import _extension
from dwell.timer.reference import RecurringTask, SystemTimer, TimerCore, TimerTask

BUILD = "readable"

if _extension.load("dwell.timer._core") is not None:
    from dwell.timer.compiled import (
        RecurringTask,
        SystemTimer,
        TimerCore,
        TimerTask,
    )

    BUILD = "compiled"

__all__ = ["BUILD", "RecurringTask", "SystemTimer", "TimerCore", "TimerTask"]
