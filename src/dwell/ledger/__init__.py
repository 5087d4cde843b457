"""Waits declared as data, and what becomes of them.

`row.py` has the rows and `admission.py` says which are rejected. `engine.py` decides; `operation.py`, `key_state.py`,
`op_ids.py` and `heap.py` hold its state. `ledger.py` runs the engine live (`ticket.py` is the caller's end, `notify.py`
tells those who wait), `replay.py` runs it over recorded rows. `_ledger.pyx` is the compiled twin of all but rows and
their admission.
"""

from __future__ import annotations

from dwell import _extension
from dwell.contract.reason import Reason
from dwell.ledger.explanation import Explanation, NeedState
from dwell.ledger.row import Event, Need, Outcome, Wait
from dwell.ledger.statistics import LedgerStatistics

if _extension.load("dwell.ledger._ledger") is not None:
    from dwell.ledger._ledger import Engine, Ledger, Replay, Ticket, replay

    BUILD = "compiled"
else:
    from dwell.ledger.engine import Engine
    from dwell.ledger.ledger import Ledger
    from dwell.ledger.replay import Replay, replay
    from dwell.ledger.ticket import Ticket

    BUILD = "readable"

__all__ = [
    "BUILD",
    "Engine",
    "Event",
    "Explanation",
    "Ledger",
    "LedgerStatistics",
    "Need",
    "NeedState",
    "Outcome",
    "Reason",
    "Replay",
    "Ticket",
    "Wait",
    "replay",
]
