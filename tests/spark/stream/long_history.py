"""Histories long enough for many micro-batches."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.spark.histories import column_history
from tests.spark.stream.feed import END_MS, Feed
from tests.spark.stream.test_shards import arrivals, split, time_of

if TYPE_CHECKING:
    from pathlib import Path

    from dwell.ledger import Event, Wait


def long_history(seed: int, size: int) -> tuple[list[Wait], list[Event]]:
    """Many small histories on the same keys at the same time, with op_ids of their own."""
    rng = Random(seed)
    waits: list[Wait] = []
    events: list[Event] = []
    for number in range(size):
        some_waits, some_events = column_history(rng, 12)
        waits += [wait._replace(op_id=wait.op_id and f"{number}-{wait.op_id}") for wait in some_waits]
        events += some_events
    # Those at the ends of time would leave no time for an end of the stream.
    return [wait for wait in waits if _is_near(wait)], [event for event in events if _is_near(event)]


def write_history(root: Path, seed: int, files: int) -> tuple[list[Wait], list[Event]]:
    """A long history as files to be read one by one, and a last one that ends it."""
    waits, events = long_history(seed, 40)
    rows = arrivals(Random(seed), waits, events, 5)
    feed = Feed(root / "in")
    for part in range(files):
        feed.add(*split(rows[part * len(rows) // files : (part + 1) * len(rows) // files]))
    feed.end()
    return waits, events


def _is_near(row: Wait | Event) -> bool:
    at_ms = time_of(row)
    return at_ms is None or abs(at_ms) < END_MS // 2
