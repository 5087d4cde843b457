"""Hierarchical timing wheel: millions of timeouts, O(1) to add and to cancel.

`build.py` chooses between the two builds: `compiled.py` (`_core.pyx`) and `reference.py` (`core.py` over `wheel.py`,
`task_list.py`, `delay_queue.py`). `driver.py` waits and hands over due tasks, `executor.py` is where they run.
"""

from dwell.timer.build import BUILD, RecurringTask, SystemTimer, TimerTask
from dwell.timer.delay_queue import DelayQueue
from dwell.timer.driver import Timer
from dwell.timer.executor import InlineExecutor
from dwell.timer.statistic import LATENESS_BOUNDS_MS, LevelStatistics, TimerStatistics
from dwell.timer.task_list import TaskCounter, TimerTaskEntry, TimerTaskList
from dwell.timer.wheel import TimingWheel

__all__ = [
    "BUILD",
    "LATENESS_BOUNDS_MS",
    "DelayQueue",
    "InlineExecutor",
    "LevelStatistics",
    "RecurringTask",
    "SystemTimer",
    "TaskCounter",
    "Timer",
    "TimerStatistics",
    "TimerTask",
    "TimerTaskEntry",
    "TimerTaskList",
    "TimingWheel",
]
