"""What both stages decide, without Spark: equal to `replay` however the rows are cut and shuffled."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import Event, Outcome, Wait, replay
from dwell.ledger.check import is_usable_time
from dwell.spark.stream import journal
from dwell.spark.stream.terms import Terms
from tests.ledger.history import LAST_MS, random_history
from tests.spark.stream.shards import Shards

if TYPE_CHECKING:
    from collections.abc import Sequence

FAR_MS = 4 * LAST_MS


def terms(lateness_ms: int = 0, *, shards: int = 3, idle_after_ms: int | None = 10, remember_ms: int = 0) -> Terms:
    return Terms(
        shards=shards,
        lateness_ms=lateness_ms,
        idle_after_ms=idle_after_ms,
        remember_ms=remember_ms,
        forget_keys_after_ms=None,
    )


def arrivals(rng: Random, waits: Sequence[Wait], events: Sequence[Event], lateness_ms: int) -> list[Wait | Event]:
    """The rows in an order in which none is later than allowed."""

    def arrival(row: Wait | Event) -> tuple[float, float]:
        at_ms = row.submitted_at_ms if isinstance(row, Wait) else row.at_ms
        if not is_usable_time(at_ms) or at_ms is None:
            return rng.choice((-FAR_MS, FAR_MS)), rng.random()
        return at_ms + rng.randint(0, lateness_ms), rng.random()

    return sorted([*waits, *events], key=arrival)


def run(shards: Shards, rows: Sequence[Wait | Event], rng: Random) -> list[Outcome]:
    """Cut into random micro-batches, then silence to the end of time."""
    outcomes: list[Outcome] = []
    place = 0
    while place < len(rows):
        size = rng.choice((0, 1, 1, 2, 5, len(rows)))
        batch = rows[place : place + size]
        place += size
        outcomes += shards.batch(
            [row for row in batch if isinstance(row, Wait)], [row for row in batch if isinstance(row, Event)]
        )
    for now_ms in (FAR_MS, FAR_MS + 10):
        outcomes += shards.batch([], [], now_ms)
    return outcomes


@pytest.mark.parametrize("short_log", [-1, 3, 4096])
def test_any_cut_of_any_history_settles_as_replay_does(short_log: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", short_log)
    for seed in range(400):
        rng = Random(seed)
        waits, events = random_history(rng, size=rng.choice((4, 12)))
        lateness_ms = rng.choice((0, 1, 5, 50, 1000))
        shards = Shards(terms(lateness_ms, shards=rng.choice((1, 3)), remember_ms=10**15))
        said = run(shards, arrivals(rng, waits, events, lateness_ms), rng)
        assert Counter(said) == Counter(replay(waits, events)), f"seed {seed}"
        assert shards.late == []
        assert shards.pending == 0
