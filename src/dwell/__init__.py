"""Delayed operations: wait for events on keys or for time to run out, with exactly one outcome.

The layers, from the top; each is usable without those above it. `import dwell` loads none of them: a name is loaded
when it is first used.

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

# For type checkers, who take it for true. Importing it from `typing` would take longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dwell.aio import LoopTimer
    from dwell.clock import Clock, SystemClock
    from dwell.errors import Closed, DwellError, Full, InvalidArgument, InvalidType, MissingExtra
    from dwell.ledger import Event, Ledger, Need, Outcome, Ticket, Wait
    from dwell.ledger.replay import replay
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

# Where each name is defined.
_HOMES = {
    "dwell.aio": ("LoopTimer",),
    "dwell.clock": ("Clock", "SystemClock"),
    "dwell.errors": ("Closed", "DwellError", "Full", "InvalidArgument", "InvalidType", "MissingExtra"),
    "dwell.ledger": ("Event", "Ledger", "Need", "Outcome", "Ticket", "Wait", "replay"),
    "dwell.purgatory": ("DelayedOperation", "Purgatory"),
    "dwell.serve": ("serve_statistics",),
    "dwell.timer": ("RecurringTask", "SystemTimer", "Timer", "TimerTask"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'dwell' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
