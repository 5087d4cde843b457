"""The compiled build: the same behaviour on C arrays."""

from dwell.timer._core import RecurringTask, TimerCore, TimerTask  # type: ignore[import-not-found]
from dwell.timer.driver import Driver

__all__ = ["RecurringTask", "SystemTimer", "TimerCore", "TimerTask"]


class SystemTimer(Driver, TimerCore):  # type: ignore[misc]
    """Runs tasks when their delay is over. `add` and `cancel` are O(1), with any number of tasks and any delays."""
