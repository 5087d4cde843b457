"""Rows under one op_id: which are the same, and which is the first."""

from __future__ import annotations

import random

from dwell.contract.order import content, order
from dwell.ledger import Need, Wait
from tests.ledger import model
from tests.ledger.history import random_history


def test_null_sorts_before_any_value() -> None:
    rows = [
        Wait("x", [Need("a", 0)], 1, 0),
        Wait("x", [Need("a", 0)], 1, 0, quorum=1),
        Wait("x", [Need("a")], 1, 0),
        Wait("x", [Need("a", -5)], 1, 0),
        Wait("x", [Need("a", 0), Need("b")], 1, 0),
        Wait("x", None, None, None),
    ]
    assert sorted(rows, key=order) == [rows[5], rows[2], rows[3], rows[0], rows[1], rows[4]]


def test_a_null_in_place_of_a_need_is_a_need_with_a_null_key() -> None:
    one, other = Wait("x", [None], 1, 0), Wait("x", [Need(None)], 1, 0)  # type: ignore[list-item]
    assert content(one) == content(other)
    assert order(one) == order(other)


def test_the_same_rows_are_the_same_and_the_first_is_the_first_by_a_second_reading() -> None:
    for seed in range(2000):
        waits, _ = random_history(random.Random(seed))
        for one in waits:
            for other in waits:
                assert (content(one) == content(other)) == model.same(one, other)
        sound = [wait for wait in waits if model.own_fault(wait) is None]
        assert [content(wait) for wait in sorted(sound, key=order)] == [
            content(wait) for wait in sorted(sound, key=model.order)
        ]
