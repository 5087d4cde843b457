"""Operations that wait for events on keys or for their time to run out, with exactly one outcome.

`build.py` chooses between the two builds: `compiled.py` (`_core.pyx`) and `reference.py` (`operation.py`, `core.py`,
`watcher_list.py`, `action_queue.py`). `driver.py` has the reaper; `metric.py` is for Prometheus.
"""

from dwell.purgatory.build import BUILD, DelayedOperation, Purgatory
from dwell.purgatory.driver import ClosePolicy
from dwell.purgatory.statistic import PurgatoryStatistics

__all__ = ["BUILD", "ClosePolicy", "DelayedOperation", "Purgatory", "PurgatoryStatistics"]
