"""Hierarchical timing wheel: millions of timeouts, O(1) to add and to cancel.

Start reading at `wheel.py`, which explains the algorithm. `wheels.py` holds all that waits in one timer, `task.py` is
what waits. `system_timer.py` turns the wheels as time passes, and `executor.py` is where due tasks run.

`_wheels.pyx` is the compiled twin of `wheels.py` and `task.py`. Everything else is the same in both builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell import _extension

if TYPE_CHECKING or _extension.load("dwell.timer._wheels") is None:
    from dwell.timer.task import RecurringTask, TimerTask
    from dwell.timer.wheels import Wheels

    BUILD = "readable"
else:
    from dwell.timer._wheels import RecurringTask, TimerTask, Wheels

    BUILD = "compiled"

from dwell.timer.bucket import TimerTaskEntry, TimerTaskList
from dwell.timer.delay_queue import DelayQueue
from dwell.timer.executor import InlineExecutor
from dwell.timer.statistics import LATENESS_BOUNDS_MS, LevelStatistics, TimerStatistics
from dwell.timer.system_timer import SystemTimer
from dwell.timer.timer import Timer
from dwell.timer.wheel import TimingWheel

__all__ = [
    "BUILD",
    "LATENESS_BOUNDS_MS",
    "DelayQueue",
    "InlineExecutor",
    "LevelStatistics",
    "RecurringTask",
    "SystemTimer",
    "Timer",
    "TimerStatistics",
    "TimerTask",
    "TimerTaskEntry",
    "TimerTaskList",
    "TimingWheel",
    "Wheels",
]
