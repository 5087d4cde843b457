"""The compiled build: the same behaviour on C arrays."""

from dwell.purgatory._core import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    DelayedOperation,
    PurgatoryCore,
)
from dwell.purgatory.driver import Driver
from dwell.timer.compiled import SystemTimer, TimerTask

__all__ = ["DelayedOperation", "Purgatory"]


class Purgatory(Driver, PurgatoryCore):  # type: ignore[misc]
    """Where operations wait for their keys or their time; every one is completed exactly once. A context manager."""

    _make_timer = SystemTimer
    _make_task = TimerTask
