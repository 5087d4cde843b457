"""Histories long enough for many micro-batches."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from dwell.contract.time_range import MAX_MS
from dwell.ledger import Wait
from tests.spark.histories import column_history
from tests.spark.stream.feed import END_MS, Feed
from tests.spark.stream.test_shards import arrivals, split, time_of

if TYPE_CHECKING:
    from pathlib import Path

    from dwell.ledger import Event


def long_history(seed: int, size: int) -> tuple[list[Wait], list[Event]]:
    """Many small histories on the same keys at the same time, with op_ids of their own."""
    rng = Random(seed)
    waits: list[Wait] = []
    events: list[Event] = []
    for number in range(size):
        some_waits, some_events = column_history(rng, 12)
        waits += [wait._replace(op_id=wait.op_id and f"{number}-{wait.op_id}") for wait in some_waits]
        events += some_events
    # Those at the ends of time, or waiting until then, would leave no time for an end of the stream.
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
    if at_ms is None:
        return True
    # A deadline beyond the range of time is no deadline: such a wait is rejected, and stays.
    deadline_ms = at_ms + row.delay_ms if isinstance(row, Wait) and row.delay_ms is not None else at_ms
    return abs(at_ms) < END_MS // 2 and not END_MS // 2 <= deadline_ms <= MAX_MS
