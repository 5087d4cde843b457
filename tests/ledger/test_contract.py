"""One hand-made case for each clause of the contract, on replay."""

from __future__ import annotations

import pytest

from dwell.ledger import Event, Need, Outcome, Wait, replay

A5 = Need("a", 5)


def only(waits: list[Wait], events: list[Event], as_of_ms: int | None = None) -> Outcome:
    [outcome] = replay(waits, events, as_of_ms=as_of_ms)
    return outcome


def completed(op_id: str, at_ms: int, by: str, submitted_at_ms: int = 0) -> Outcome:
    return Outcome(op_id, "completed", at_ms, at_ms - submitted_at_ms, by, None)


def expired(op_id: str, at_ms: int, submitted_at_ms: int = 0) -> Outcome:
    return Outcome(op_id, "expired", at_ms, at_ms - submitted_at_ms, None, None)


def test_a_level_need_is_met_by_the_first_event_that_reaches_it() -> None:
    events = [Event("a", 1, 4), Event("a", 2, 7), Event("a", 3, 9)]
    assert only([Wait("x", [A5], 10, 0)], events) == completed("x", 2, "a")


def test_a_level_reached_before_submission_completes_at_submission() -> None:
    assert only([Wait("x", [A5], 10, 100)], [Event("a", 1, 5)]) == completed("x", 100, "a", 100)


def test_levels_never_fall() -> None:
    assert only([Wait("x", [A5], 10, 5)], [Event("a", 1, 9), Event("a", 2, 1)]) == completed("x", 5, "a", 5)


def test_an_event_without_a_level_moves_no_level() -> None:
    assert only([Wait("x", [Need("a", -1)], 10, 0)], [Event("a", 1)]) == expired("x", 10)


def test_a_signal_is_met_by_any_event_from_submission_on() -> None:
    wait = [Wait("x", [Need("a")], 10, 5)]
    assert only(wait, [Event("a", 4, 100)]) == expired("x", 15, 5)
    assert only(wait, [Event("a", 5, -3)]) == completed("x", 5, "a", 5)
    assert only(wait, [Event("a", 9)]) == completed("x", 9, "a", 5)


def test_all_needs_must_be_met_without_a_quorum() -> None:
    wait = [Wait("x", [A5, Need("b")], 10, 0)]
    assert only(wait, [Event("a", 1, 5), Event("b", 4)]) == completed("x", 4, "b")
    assert only(wait, [Event("a", 1, 5)]) == expired("x", 10)


def test_a_quorum_of_needs_suffices() -> None:
    wait = [Wait("x", [A5, Need("b"), Need("c")], 10, 0, quorum=2)]
    assert only(wait, [Event("c", 1), Event("a", 2, 5), Event("b", 3)]) == completed("x", 2, "a")


def test_a_volume_is_the_sum_of_what_lies_above_the_needs() -> None:
    wait = [Wait("x", [Need("a", 10), Need("b", 20)], 10, 0, volume=5)]
    assert only(wait, [Event("a", 1, 13), Event("b", 2, 21), Event("b", 3, 22)]) == completed("x", 3, "b")
    assert only(wait, [Event("a", 1, 14), Event("b", 2, 5)]) == expired("x", 10)


def test_a_volume_sums_beyond_64_bits() -> None:
    low, high = -(2**63), 2**63 - 1
    wait = [Wait("x", [Need("a", low), Need("b", low)], 10, 0, volume=high)]
    assert only(wait, [Event("a", 1, -2), Event("b", 2, low + 1)]) == completed("x", 2, "b")
    assert only(wait, [Event("a", 1, high), Event("b", 2, high)]) == completed("x", 1, "a")


def test_an_event_at_the_deadline_completes_and_one_after_it_does_not() -> None:
    wait = [Wait("x", [Need("a")], 10, 0)]
    assert only(wait, [Event("a", 10)]) == completed("x", 10, "a")
    assert only(wait, [Event("a", 11)]) == expired("x", 10)


def test_a_delay_of_zero_is_completed_by_an_event_of_its_instant() -> None:
    assert only([Wait("x", [Need("a")], 0, 3)], [Event("a", 3)]) == completed("x", 3, "a", 3)
    assert only([Wait("x", [Need("a")], 0, 3)], []) == expired("x", 3, 3)


def test_completed_by_is_the_smallest_key_met_at_the_instant() -> None:
    any_of = [Wait("x", [Need("c"), Need("a"), Need("b")], 10, 0, quorum=1)]
    assert only(any_of, [Event("c", 4), Event("b", 4), Event("a", 5)]) == completed("x", 4, "b")


def test_needs_met_before_submission_tie_with_those_met_at_it() -> None:
    wait = [Wait("x", [Need("b", 1), Need("a", 1)], 10, 5, quorum=1)]
    assert only(wait, [Event("b", 1, 1), Event("a", 5, 1)]) == completed("x", 5, "a", 5)


def test_completed_by_of_a_volume_is_the_contributing_key_that_rose_last() -> None:
    wait = [Wait("x", [Need("a", 0), Need("b", 0), Need("c", 9)], 10, 5, volume=4)]
    rises = [Event("a", 3, 2), Event("b", 2, 2), Event("c", 4, 9)]
    assert only(wait, rises) == completed("x", 5, "a", 5)
    assert only(wait, [*rises, Event("b", 3, 3)]) == completed("x", 5, "a", 5)
    assert only(wait, [*rises, Event("b", 4, 3)]) == completed("x", 5, "b", 5)


def test_a_volume_reached_before_submission_is_completed_by_a_key_that_rises_at_it() -> None:
    wait = [Wait("x", [Need("b", 0), Need("a", -3)], 9, 4, volume=1)]
    events = [Event("a", 0, -2), Event("b", 4), Event("b", 4, 1)]
    assert only(wait, events) == completed("x", 4, "b", 4)


def test_a_repeat_in_any_order_of_needs_is_one_operation() -> None:
    waits = [Wait("x", [A5, Need("b")], 10, 0), Wait("x", (Need("b"), A5), 10, 0)]
    assert only(waits, []) == expired("x", 10)


def test_a_rejected_row_repeated_is_one_outcome() -> None:
    assert only([Wait("x", [A5], -1, 0), Wait("x", [A5], -1, 0)], []).reason == "delay_ms is negative: -1"


def test_rows_without_an_op_id_are_each_rejected() -> None:
    assert len(list(replay([Wait(None, [A5], 1, 0), Wait(None, [A5], 1, 0), Wait("", [A5], 1, 0)], []))) == 3


@pytest.mark.parametrize(
    "later",
    [
        Wait("x", [A5], 10, 1),
        Wait("x", [A5], 11, 0),
        Wait("x", [Need("a", 6)], 10, 0),
        Wait("x", [A5, Need("b")], 10, 0),
        Wait("x", [Need("b", 5)], 10, 0),
        Wait("x", [A5], 10, 0, quorum=1),
        Wait("x", [A5], 10, 0, volume=1),
    ],
    ids=["time", "delay", "level", "longer", "key", "quorum", "volume"],
)
def test_the_first_content_counts_and_others_are_rejected(later: Wait) -> None:
    for rows in ([Wait("x", [A5], 10, 0), later], [later, Wait("x", [A5], 10, 0)]):
        outcomes = sorted(replay(rows, []), key=lambda outcome: outcome.outcome)
        assert outcomes[0] == expired("x", 10)
        assert outcomes[1] == Outcome("x", "rejected", reason="op_id was used before with other content: x")


def test_a_faulty_row_does_not_use_up_its_op_id() -> None:
    outcomes = list(replay([Wait("x", [A5], -1, 0), Wait("x", [A5], 10, 5)], []))
    assert [outcome.outcome for outcome in outcomes] == ["rejected", "expired"]


def test_keys_compare_by_code_point() -> None:
    keys = ["\U0001f600", "\uffee", "é", "b", ""]
    for smaller, greater in zip(keys[1:], keys, strict=False):
        wait = [Wait("x", [Need(greater), Need(smaller)], 10, 0, quorum=1)]
        assert only(wait, [Event(greater, 1), Event(smaller, 1)]) == completed("x", 1, smaller)


def test_as_of_leaves_the_undecided_pending() -> None:
    wait = [Wait("x", [Need("a")], 10, 0)]
    assert only(wait, [Event("a", 5)], as_of_ms=4) == Outcome("x", "pending")
    assert only(wait, [Event("a", 5)], as_of_ms=5) == completed("x", 5, "a")
    assert only(wait, [], as_of_ms=9) == Outcome("x", "pending")
    assert only(wait, [], as_of_ms=10) == expired("x", 10)


def test_an_operation_submitted_after_as_of_is_pending_and_a_faulty_one_rejected() -> None:
    assert only([Wait("x", [Need("a")], 10, 20)], [Event("a", 20)], as_of_ms=19) == Outcome("x", "pending")
    assert only([Wait("x", [Need("a")], -1, 20)], [], as_of_ms=19).outcome == "rejected"


def test_events_without_key_or_usable_time_are_counted_and_set_aside() -> None:
    events = [Event(None, 1, 5), Event("a", None, 5), Event("a", 2**60, 5), Event("a", -(2**60), 5)]
    run = replay([Wait("x", [A5], 10, 0)], events)
    assert list(run) == [expired("x", 10)]
    assert run.statistics().set_aside == 4


def test_the_whole_range_of_years_is_usable() -> None:
    first, last = -62_135_596_800_000, 253_402_300_799_999
    waits = [Wait("first", [Need("a")], 1, first), Wait("last", [Need("b")], 0, last)]
    assert list(replay(waits, [])) == [expired("first", first + 1, first), expired("last", last, last)]
