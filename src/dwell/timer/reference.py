"""The pure-Python build: Kafka's classes one to one. Start reading at `wheel.py`."""

from dwell.timer.core import TimerCore
from dwell.timer.driver import Driver
from dwell.timer.task import RecurringTask, TimerTask

__all__ = ["RecurringTask", "SystemTimer", "TimerCore", "TimerTask"]


class SystemTimer(Driver, TimerCore):
    """Runs tasks when their delay is over. `add` and `cancel` are O(1), with any number of tasks and any delays."""
