from __future__ import annotations

import pytest

from dwell.errors import InvalidType
from dwell.ledger import Ledger, Need, Reason, Wait, replay
from dwell.testing import ManualClock

A = Need("a", 1)

# Each row has this fault and, where possible, the next one too: the first of the table is the reason.
FAULTS: dict[Reason, tuple[Wait, object]] = {
    Reason.OP_ID_NULL: (Wait(None, [A], 1, None), None),
    Reason.OP_ID_EMPTY: (Wait("", [A], 1, None), None),
    Reason.SUBMITTED_AT_NULL: (Wait("x", [A], None, None), None),
    Reason.SUBMITTED_AT_RANGE: (Wait("x", [A], None, 253_402_300_800_000), 253_402_300_800_000),
    Reason.DELAY_NULL: (Wait("x", None, None, 0), None),
    Reason.DELAY_NEGATIVE: (Wait("x", None, -5, 0), -5),
    Reason.DEADLINE_RANGE: (Wait("x", None, 253_402_300_800_000, 0), 253_402_300_800_000),
    Reason.NEEDS_NULL: (Wait("x", None, 1, 0, quorum=0), None),
    Reason.NEEDS_EMPTY: (Wait("x", [], 1, 0, quorum=1), None),
    Reason.KEY_NULL: (Wait("x", [A, A, Need(None, 1)], 1, 0, quorum=9), None),
    Reason.KEY_REPEATED: (Wait("x", [Need("c"), Need("b"), Need("b"), Need("c", 1)], 1, 0, quorum=9), "b"),
    Reason.QUORUM_RANGE: (Wait("x", [A], 1, 0, quorum=2, volume=0), 2),
    Reason.VOLUME_NOT_POSITIVE: (Wait("x", [A], 1, 0, quorum=1, volume=0), 0),
    Reason.VOLUME_WITH_QUORUM: (Wait("x", [Need("a")], 1, 0, quorum=1, volume=3), 1),
    Reason.VOLUME_WITHOUT_LEVEL: (Wait("x", [A, Need("c"), Need("b")], 1, 0, volume=3), "b"),
}


def test_every_reason_has_a_case_here_or_elsewhere() -> None:
    assert set(Reason) - set(FAULTS) == {Reason.CONTENT_DIFFERS, Reason.TOO_LATE}


@pytest.mark.parametrize("reason", FAULTS, ids=lambda reason: reason.name)
def test_replay_names_the_field_and_the_value(reason: Reason) -> None:
    wait, value = FAULTS[reason]
    [outcome] = replay([wait], [])
    assert outcome.outcome == "rejected"
    assert outcome.reason == reason.text(value)
    assert (outcome.finished_at_ms, outcome.waited_ms, outcome.completed_by) == (None, None, None)


@pytest.mark.parametrize(
    "reason", [r for r in FAULTS if not r.name.startswith("SUBMITTED_AT")], ids=lambda reason: reason.name
)
def test_a_live_ledger_gives_a_rejected_ticket(reason: Reason) -> None:
    wait, value = FAULTS[reason]
    with Ledger(clock=ManualClock(), reaper=False) as ledger:
        ticket = ledger.open(wait.op_id, wait.needs, wait.delay_ms, quorum=wait.quorum, volume=wait.volume)
        assert ticket.result(0).reason == reason.text(value)
        assert ledger.statistics().rejected == ledger.statistics().opened == 1


def test_a_null_in_place_of_a_need_is_a_null_key() -> None:
    [outcome] = replay([Wait("x", [A, None], 1, 0)], [])  # type: ignore[list-item]
    assert outcome.reason == Reason.KEY_NULL.text()


@pytest.mark.parametrize(
    "changes",
    [
        {"op_id": 7},
        {"delay_ms": "5"},
        {"delay_ms": 1.5},
        {"needs": ["a"]},
        {"needs": [("a", 1)]},
        {"needs": [Need(7)]},  # type: ignore[arg-type]
        {"needs": [Need("a", "1")]},  # type: ignore[arg-type]
        {"quorum": "1"},
        {"volume": 1.0},
    ],
    ids=str,
)
def test_a_value_of_a_wrong_kind_raises_at_the_call(changes: dict[str, object]) -> None:
    arguments = {"op_id": "x", "needs": [A], "delay_ms": 1} | changes
    with Ledger(clock=ManualClock(), reaper=False) as ledger:
        with pytest.raises(InvalidType, match="must"):
            ledger.open(**arguments)  # type: ignore[call-overload]
        assert ledger.statistics().opened == 0
    with pytest.raises(InvalidType, match="must"):
        list(replay([Wait(submitted_at_ms=0, **arguments)], []))  # type: ignore[arg-type]
