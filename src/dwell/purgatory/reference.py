"""The pure-Python build. Start reading at `operation.py`."""

from dwell.purgatory.core import PurgatoryCore
from dwell.purgatory.driver import Driver
from dwell.purgatory.operation import DelayedOperation
from dwell.timer.reference import SystemTimer, TimerTask

__all__ = ["DelayedOperation", "Purgatory"]


class Purgatory(Driver, PurgatoryCore):
    """Where operations wait for their keys or their time; every one is completed exactly once. A context manager."""

    _make_timer = SystemTimer
    _make_task = TimerTask
