"""Delayed operations: wait for events on keys or for time to run out, with exactly one outcome.

The layers, from the top; each is usable without those above it.

    dwell.cli, dwell.report   the command line, pictures of outcomes
    dwell.serve               statistics of a running process for `dwell top`
    dwell.spark               settle() for tables and streams on Spark       (extra: dwell[spark])
    dwell.broker              Kafka-compatible brokers for tests             (extra: dwell[broker])
    dwell.ledger              waits declared as data: Ledger (live), replay (recorded)
    dwell.purgatory           operations written as classes: watch keys, try-complete, reaper, purge
    dwell.aio                 the timing wheel on an asyncio event loop
    dwell.timer               hierarchical timing wheel, delay queue of buckets
    dwell.clock, dwell.errors time as a value; what can go wrong
"""

from dwell.aio import LoopTimer
from dwell.clock import Clock, SystemClock
from dwell.errors import Closed, DwellError, Full, InvalidArgument, InvalidType, MissingExtra
from dwell.ledger import Event, Ledger, Need, Outcome, Ticket, Wait, replay
from dwell.purgatory import DelayedOperation, Purgatory
from dwell.serve import serve_statistics
from dwell.timer import RecurringTask, SystemTimer, Timer, TimerTask

__all__ = [
    "Clock",
    "Closed",
    "DelayedOperation",
    "DwellError",
    "Event",
    "Full",
    "InvalidArgument",
    "InvalidType",
    "Ledger",
    "LoopTimer",
    "MissingExtra",
    "Need",
    "Outcome",
    "Purgatory",
    "RecurringTask",
    "SystemClock",
    "SystemTimer",
    "Ticket",
    "Timer",
    "TimerTask",
    "Wait",
    "replay",
    "serve_statistics",
]

__version__ = "0.1.0"
