"""What tests of code that uses dwell need: a clock that stands still, and an executor without threads."""

from dwell.clock import ManualClock
from dwell.timer import InlineExecutor

__all__ = ["InlineExecutor", "ManualClock"]
