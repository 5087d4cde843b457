"""Operations that wait for events on keys or for their time to run out, with exactly one outcome.

Start reading at `purgatory.py`: its head tells how operations live and which locks are held when. `operation.py` is one
operation, `watch_map.py` says which operations watch which key, `action_queue.py` keeps what callbacks set off.
`_purgatory.pyx` is the compiled twin of these four. `prometheus.py` shows purgatories to Prometheus.
"""

from dwell import _extension
from dwell.purgatory.close_policy import ClosePolicy
from dwell.purgatory.operation import DelayedOperation
from dwell.purgatory.purgatory import Purgatory
from dwell.purgatory.statistics import PurgatoryStatistics

BUILD = "readable"

if _extension.load("dwell.purgatory._purgatory") is not None:
    from dwell.purgatory._purgatory import DelayedOperation, Purgatory

    BUILD = "compiled"

__all__ = ["BUILD", "ClosePolicy", "DelayedOperation", "Purgatory", "PurgatoryStatistics"]
