"""Counts by powers of two."""

from __future__ import annotations

from dwell.histogram import BOUNDS, PLACES, bound_of, place_of


def test_a_value_is_counted_at_the_first_bound_it_keeps() -> None:
    for value in (*range(70), 2**20 - 1, 2**20, 2**40, -3):
        place = place_of(value)
        assert place == PLACES - 1 or value <= BOUNDS[place]
        assert place == 0 or value > BOUNDS[place - 1]


def test_the_bound_that_a_share_keeps() -> None:
    counts = [0] * PLACES
    for value in (0, 0, 1, 5):
        counts[place_of(value)] += 1
    assert [bound_of(counts, share) for share in (0.5, 0.75, 1.0)] == [0, 1, 7]
    assert bound_of([0] * PLACES, 0.5) is None
    counts[-1] += 1
    assert bound_of(counts, 1.0) is None
