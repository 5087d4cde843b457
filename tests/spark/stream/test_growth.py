"""How the work of a step grows with its rows, counted: in steps of Python, and in entries looked at."""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from dwell.ledger import Event, Need, Wait
from dwell.spark.stream.late import reaching
from tests.spark.stream.shards import Shards
from tests.spark.stream.test_shards import terms

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def steps_of(work: Callable[[], object]) -> int:
    """How many lines and calls of the streams' own code it takes."""
    taken = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal taken
        if "/spark/stream/" not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename:
            return None
        taken += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return taken


def test_late_events_on_a_hot_key_cost_no_step_for_each_pair() -> None:
    def steps(many: int) -> int:
        shards = Shards(terms(shards=1, remember_ms=1000, late_events=True))
        shards.batch([Wait(f"op{i}", [Need("hot", 100 + i)], 500, i % 7) for i in range(many)], [Event("x", 0)])
        shards.batch([Wait("mover", [Need("m")], 500, 100)], [Event("x", 100)])
        # All late, and too low for every need.
        taken = steps_of(lambda: shards.batch([], [Event("hot", i % 90, i % 100) for i in range(many)]))
        assert len(shards.shown) == many
        return taken

    assert steps(400) < 2 * steps(100)


def test_a_volume_over_many_keys_is_summed_as_it_rises() -> None:
    def steps(keys: int) -> int:
        shards = Shards(terms(shards=1))
        wait = Wait("op", [Need(f"k{i:03}", 0) for i in range(keys)], 1000, 0, None, 10 * keys)
        shards.batch([wait], [Event(f"k{i:03}", i, 10) for i in range(keys)])
        said = []
        taken = steps_of(lambda: said.extend(shards.batch([Wait("m", [Need("m")], 0, 900)], [Event("x", 900)])))
        assert [(one.op_id, one.outcome, one.finished_at_ms) for one in said] == [("op", "completed", keys - 1)]
        return taken

    assert steps(400) < 6 * steps(100)


class Counted(np.ndarray[Any, np.dtype[np.int64]]):
    """Counts the entries taken from it."""

    taken = 0

    def __getitem__(self, key: Any) -> Any:
        entries = super().__getitem__(key)
        Counted.taken += np.size(entries)
        return entries


def test_rows_that_reach_a_time_are_found_without_looking_at_the_others() -> None:
    rng = Random(3)
    for rows in (0, 1, 2, 3, 7, 8, 30):
        ends = np.array([rng.randint(0, 20) for _ in range(rows)], np.int64)
        at = np.array([rng.randint(0, 22) for _ in range(25)], np.int64)
        start = np.array([rng.randint(0, rows) for _ in at], np.int64)
        stop = np.array([rng.randint(0, rows) for _ in at], np.int64)
        question, row = reaching(ends, at, start, stop)
        found = sorted(zip(question.tolist(), row.tolist(), strict=True))
        assert found == [
            (q, r) for q in range(len(at)) for r in range(rows) if start[q] <= r < stop[q] and ends[r] >= at[q]
        ]


def test_what_a_search_looks_at_follows_what_it_finds() -> None:
    many = 4096
    ends = np.arange(many)[::-1].copy()
    # Each finds two rows, at the front of a range of all.
    at = np.full(many, many - 2).view(Counted)
    Counted.taken = 0
    question, _ = reaching(ends, at, np.zeros(many, np.int64), np.full(many, many))
    assert len(question) == 2 * many
    assert Counted.taken < 40 * many
