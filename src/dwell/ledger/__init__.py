"""Waits declared as data, and what becomes of them."""

from __future__ import annotations

from dwell.ledger.reason import Reason
from dwell.ledger.replay import Replay, replay
from dwell.ledger.statistics import LedgerStatistics
from dwell.ledger.value import Event, Need, Outcome, Wait

__all__ = ["Event", "LedgerStatistics", "Need", "Outcome", "Reason", "Replay", "Wait", "replay"]
