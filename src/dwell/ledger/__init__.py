"""Waits declared as data, and what becomes of them.

`value.py` has the rows, `check.py` and `reason.py` say which are rejected, `engine.py` decides. `ledger.py` runs the
engine live (`ticket.py` is the caller's end, `wake.py` wakes it), `replay.py` over recorded rows. `build.py` chooses
between the compiled modules and their sources.
"""

from __future__ import annotations

from dwell.ledger.build import BUILD  # isort: split

from dwell.ledger.explanation import Explanation, NeedState
from dwell.ledger.ledger import Ledger
from dwell.ledger.reason import Reason
from dwell.ledger.replay import Replay, replay
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.ticket import Ticket
from dwell.ledger.value import Event, Need, Outcome, Wait

__all__ = [
    "BUILD",
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
