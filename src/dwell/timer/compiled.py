"""The compiled build: the same behaviour on C arrays."""

from dwell.timer._core import RecurringTask, TimerCore, TimerTask  # type: ignore[import-untyped,unused-ignore]
from dwell.timer.driver import Driver

__all__ = ["RecurringTask", "SystemTimer", "TimerTask"]


class SystemTimer(Driver, TimerCore):  # type: ignore[misc]
    """Runs tasks when their delay is over. `add` and `cancel` are O(1), with any number of tasks and any delays."""
