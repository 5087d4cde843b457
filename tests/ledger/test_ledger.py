from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from dwell.errors import Closed, Full, InvalidArgument, InvalidType
from dwell.ledger import Event, Ledger, LedgerStatistics, Need, Outcome, Ticket, Wait
from dwell.ledger.admission import is_usable_event
from dwell.testing import ManualClock
from tests.ledger import model
from tests.ledger.history import random_history


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ledger(clock: ManualClock) -> Iterator[Ledger]:
    with Ledger(clock=clock, reaper=False) as ledger:
        yield ledger


def balance(counts: LedgerStatistics) -> int:
    """0 if the ledger's identity holds."""
    settled = counts.completed + counts.expired + counts.rejected + counts.cancelled
    return counts.opened - settled - counts.pending


def test_an_event_completes_what_waits_for_it(clock: ManualClock, ledger: Ledger) -> None:
    ticket = ledger.open("x", [Need("a", 5)], 100)
    assert ticket.outcome is None
    assert ledger.record("a", 4) == 0
    clock.advance(7)
    assert ledger.record("a", 5) == 1
    assert ticket.outcome == Outcome("x", "completed", 7, 7, "a")


def test_a_wait_expires_when_its_deadline_is_over(clock: ManualClock, ledger: Ledger) -> None:
    ticket = ledger.open("x", [Need("a")], 20)
    clock.advance(19)
    assert ledger.advance() == 0
    clock.advance(1)
    assert ledger.advance() == 1
    assert ticket.outcome == Outcome("x", "expired", 20, 20)


def test_an_event_in_the_millisecond_of_the_deadline_completes(clock: ManualClock, ledger: Ledger) -> None:
    tickets = [ledger.open("x", [Need("a")], 20), ledger.open("y", [Need("b")], 0)]
    ledger.record("b")
    clock.advance(20)
    ledger.record("a")
    assert [ticket.result(0).outcome for ticket in tickets] == ["completed", "completed"]


def test_an_event_after_the_deadline_expires_what_the_reaper_has_not_reached(
    clock: ManualClock, ledger: Ledger
) -> None:
    level = ledger.open("x", [Need("a", 1)], 20)
    volume = ledger.open("y", [Need("a", 0), Need("b", 0)], 20, volume=1)
    both = ledger.open("z", [Need("a", 1), Need("b", 1)], 20)
    clock.advance(25)
    assert ledger.record("a", 1) == 0
    for ticket in (level, volume, both):
        assert ticket.outcome == Outcome(ticket.op_id, "expired", 20, 20)
    assert ledger.advance() == 0


def test_a_signal_waits_for_the_next_event_even_within_one_millisecond(ledger: Ledger) -> None:
    ledger.record("heartbeat")
    ticket = ledger.open("x", [Need("heartbeat")], 100)
    assert ticket.outcome is None
    ledger.record("heartbeat")
    assert ticket.outcome is not None


def test_a_level_known_already_completes_at_once(ledger: Ledger) -> None:
    ledger.record("a", 9)
    assert ledger.open("x", [Need("a", 5)], 0).result(0) == Outcome("x", "completed", 0, 0, "a")


def test_events_recorded_together_are_one_instant(ledger: Ledger) -> None:
    ticket = ledger.open("x", [Need("a"), Need("b")], 10, quorum=1)
    assert ledger.record_many([("b", None), ("a", 3), (None, 1)]) == 1
    assert ticket.result(0).completed_by == "a"
    assert ledger.statistics().set_aside == 1


def test_record_refuses_a_wrong_kind(ledger: Ledger) -> None:
    with pytest.raises(InvalidType, match="key of an event must be a string, not 7"):
        ledger.record(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="level of an event must be a 64-bit integer, not '7'"):
        ledger.record_many([("a", 1), ("a", "7")])  # type: ignore[list-item]
    assert ledger.statistics().recorded == 0


def test_a_level_beyond_64_bits_is_refused(ledger: Ledger) -> None:
    for level in (2**63, -(2**63) - 1):
        with pytest.raises(InvalidType, match=f"level of an event must be a 64-bit integer, not {level}"):
            ledger.record("a", level)
        with pytest.raises(InvalidType, match=f"level of a need must be a 64-bit integer, not {level}"):
            ledger.open("x", [Need("a", level)], 10)
        with pytest.raises(InvalidType, match=f"volume must be a 64-bit integer, not {level}"):
            ledger.open("x", [Need("a", 0)], 10, volume=level)
    assert ledger.statistics().opened == ledger.statistics().recorded == 0


def test_kinds_of_strings_and_integers_count_as_what_they_are(ledger: Ledger) -> None:
    class Name(str):
        __slots__ = ()

    class Number(int):
        pass

    ticket = ledger.open(Name("x"), [Need(Name("a"), Number(2)), Need(Name("b"))], Number(10))
    assert ledger.record(Name("b")) == 0
    assert ledger.record("a", Number(2)) == 1
    assert ticket.outcome == Outcome("x", "completed", 0, 0, "a")


@pytest.mark.parametrize("field", ["max_open", "key_retention_ms", "op_retention_ms"])
def test_bounds_of_a_wrong_kind_are_named(field: str) -> None:
    for value in ("7", 1.5):
        with pytest.raises(InvalidType, match=f"{field} must be an integer.*not {value!r}"):
            Ledger(reaper=False, **{field: value})  # type: ignore[arg-type]
    Ledger(reaper=False, **{field: 2**70}).close()  # type: ignore[arg-type]


def test_a_wrong_kind_in_a_row_with_another_fault_is_named(ledger: Ledger) -> None:
    for needs in ([7], [Need("a"), 7]):
        with pytest.raises(InvalidType, match="of a wrong kind"):
            ledger.open("x", needs, -1)  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="of a wrong kind"):
        ledger.open("x", [Need("a")], -1, quorum=[])  # type: ignore[call-overload]
    assert ledger.statistics().opened == 0


def test_a_wait_as_a_row_is_submitted_now(clock: ManualClock, ledger: Ledger) -> None:
    clock.advance(100)
    first = ledger.open(Wait("x", [Need("a"), Need("b")], 20, None, quorum=1))
    second = ledger.open(Wait("y", [Need("a", 10)], 20, 5, volume=3))
    assert str(ledger.explain("x")) == "x: waiting since 100 until 120, 0 of 1 needs met; met [], not met ['a', 'b']"
    assert ledger.record("a", 13) == 2
    assert first.outcome == Outcome("x", "completed", 100, 0, "a")
    assert second.outcome == Outcome("y", "completed", 100, 0, "a")
    with pytest.raises(InvalidArgument, match="a Wait must be the only argument"):
        ledger.open(Wait("z", [Need("a")], 20, None), volume=3)  # type: ignore[call-overload]


def test_cancel_settles_once(clock: ManualClock, ledger: Ledger) -> None:
    ticket = ledger.open("x", [Need("a")], 20)
    clock.advance(3)
    assert ticket.cancel()
    assert not ticket.cancel()
    assert ticket.outcome == Outcome("x", "cancelled", 3, 3)
    assert ledger.record("a") == 0


def test_cancel_after_the_deadline_finds_it_expired(clock: ManualClock, ledger: Ledger) -> None:
    ticket = ledger.open("x", [Need("a")], 20)
    clock.advance(21)
    assert not ticket.cancel()
    assert ticket.outcome == Outcome("x", "expired", 20, 20)


def test_the_same_open_in_one_millisecond_is_the_same_operation(clock: ManualClock, ledger: Ledger) -> None:
    first = ledger.open("x", [Need("a"), Need("b", 1)], 20)
    again = ledger.open("x", [Need("b", 1), Need("a")], 20)
    clock.advance(1)
    other = ledger.open("x", [Need("a"), Need("b", 1)], 20)
    ledger.record_many([("a", None), ("b", 1)])
    assert first.outcome == again.outcome is not None
    known = [ledger.open("y", [Need("b", 1)], 5) for _ in range(2)]
    assert known[0].outcome == known[1].outcome is not None
    assert other.result(0).reason == "op_id was used before with other content: x"
    assert ledger.statistics().repeated == 2


def test_more_open_waits_than_allowed_are_refused_and_not_counted(clock: ManualClock) -> None:
    with Ledger("small", clock=clock, reaper=False, max_open=2) as ledger:
        first = ledger.open("x", [Need("a")], 20)
        ledger.open("y", [Need("a")], 20)
        with pytest.raises(Full, match="small: 2 waits are open, max_open is 2"):
            ledger.open("z", [Need("a")], 20)
        assert ledger.statistics().opened == 2
        first.cancel()
        assert ledger.open("z", [Need("a")], 20).outcome is None


def test_bad_settings_raise() -> None:
    with pytest.raises(InvalidArgument, match="max_open"):
        Ledger(max_open=0, reaper=False)
    with pytest.raises(InvalidArgument, match="retention_ms"):
        Ledger(key_retention_ms=-1, reaper=False)


def test_what_nobody_waits_for_is_forgotten_after_the_retention(clock: ManualClock) -> None:
    with Ledger(clock=clock, reaper=False, key_retention_ms=100, op_retention_ms=100) as ledger:
        for number in range(1000):
            ledger.record(f"key-{number}", number)
            ledger.open(f"op-{number}", [Need(f"key-{number}", number)], 10)
        ledger.open("waiting", [Need("key-7", 8)], 10_000)
        assert (ledger.statistics().keys, ledger.statistics().operations) == (1000, 1001)
        clock.advance(100)
        assert ledger.open("still known", [Need("key-3", 3)], 0).result(0).outcome == "completed"
        clock.advance(1)
        assert ledger.open("forgotten", [Need("key-3", 3)], 0).outcome is None
        clock.advance(200)
        ledger.advance()
        assert ledger.statistics().keys == 1
        assert ledger.record("key-7", 8) == 1
        assert ledger.open("op-5", [Need("key-5")], 10).outcome is None


def test_signals_nobody_waits_for_are_not_kept(ledger: Ledger) -> None:
    for number in range(1000):
        ledger.record(f"key-{number}")
        ledger.open(f"op-{number}", [Need(f"other-{number}"), Need(f"third-{number}")], 10, quorum=1).cancel()
    assert ledger.statistics().keys == 0


def test_explain_says_what_is_met_and_since_when(clock: ManualClock, ledger: Ledger) -> None:
    clock.advance(5)
    ledger.record("a", 3)
    clock.advance(5)
    ledger.open("x", [Need("a", 3), Need("b"), Need("c", 7)], 100)
    clock.advance(5)
    ledger.record("b")
    ledger.record("c", 6)
    explanation = ledger.explain("x")
    assert explanation is not None
    assert [(need.key, need.key_level, need.met_since_ms) for need in explanation.needs] == [
        ("a", 3, 10),
        ("b", None, 15),
        ("c", 6, None),
    ]
    assert str(explanation) == "x: waiting since 10 until 110, 2 of 3 needs met; met ['a', 'b'], not met ['c']"
    ledger.record("c", 7)
    assert ledger.explain("x") is None
    assert ledger.explain("unknown") is None


def test_explain_says_how_much_of_a_volume_there_is(clock: ManualClock, ledger: Ledger) -> None:
    ledger.open("x", [Need("a", 10), Need("b", 10)], 100, volume=50)
    clock.advance(5)
    ledger.record_many([("a", 30), ("b", 10)])
    assert str(ledger.explain("x")) == "x: waiting since 0 until 100, volume 20 of 50; met ['a'], not met ['b']"


@pytest.mark.parametrize(("policy", "outcome"), [("cancel", "cancelled"), ("expire", "expired"), ("leave", None)])
def test_close_settles_what_waits_by_its_policy(clock: ManualClock, policy: str, outcome: str | None) -> None:
    ledger = Ledger(clock=clock, reaper=False)
    tickets = [ledger.open(f"{n}", [Need("a")], n) for n in (20, 20, 30)]
    overdue = ledger.open("overdue", [Need("a")], 1)
    clock.advance(2)
    ledger.close(policy)  # type: ignore[arg-type]
    ledger.close()
    assert [ticket.outcome and ticket.outcome.outcome for ticket in tickets] == [outcome] * 3
    if outcome is not None:
        assert overdue.outcome == Outcome("overdue", "expired", 1, 1)
    with pytest.raises(Closed):
        ledger.open("x", [Need("a")], 1)
    with pytest.raises(Closed):
        ledger.record("a")
    assert balance(ledger.statistics()) == 0
    for ticket in tickets:
        ticket.cancel()
    assert ledger.statistics().pending <= 1


def test_close_refuses_an_unknown_policy(ledger: Ledger) -> None:
    with pytest.raises(InvalidArgument, match="'drop'"):
        ledger.close("drop")  # type: ignore[arg-type]


def test_result_waits_no_longer_than_told(ledger: Ledger) -> None:
    ticket = ledger.open("x", [Need("a")], 20)
    for timeout in (0, -1, 0.001):
        with pytest.raises(TimeoutError, match="'x'"):
            ticket.result(timeout)
    ledger.record("a")
    assert ticket.result().outcome == "completed"


def test_result_wakes_in_another_thread() -> None:
    with Ledger() as ledger:
        ticket = ledger.open("x", [Need("a")], 60_000)
        outcomes: list[Outcome] = []
        threads = [threading.Thread(target=lambda: outcomes.append(ticket.result(30))) for _ in range(3)]
        for thread in threads:
            thread.start()
        ledger.record("a")
        for thread in threads:
            thread.join()
        assert outcomes == [ticket.result(0)] * 3


def test_the_reaper_expires_in_real_time() -> None:
    with Ledger() as ledger:
        outcome = ledger.open("x", [Need("a")], 5).result(30)
        assert (outcome.outcome, outcome.waited_ms) == ("expired", 5)


def test_callbacks_run_under_no_lock_and_their_errors_reach_the_handler(clock: ManualClock) -> None:
    errors: list[BaseException] = []
    with Ledger(clock=clock, reaper=False, on_error=lambda error, _source: errors.append(error)) as ledger:
        seen: list[Ticket] = []
        ticket = ledger.open("x", [Need("a")], 20)
        ticket.add_done_callback(lambda _ticket: 1 / 0)
        ticket.add_done_callback(lambda _ticket: ledger.statistics())
        ticket.add_done_callback(seen.append)
        ledger.record("a")
        ticket.add_done_callback(seen.append)
        assert seen == [ticket, ticket]
        assert [type(error) for error in errors] == [ZeroDivisionError]


def test_ten_thousand_waits_that_each_complete_the_next_do_not_recurse(ledger: Ledger) -> None:
    def pass_on(ticket: Ticket) -> None:
        ledger.record(str(int(ticket.op_id or 0) + 1))

    for number in range(10_000):
        ledger.open(str(number), [Need(str(number))], 1000).add_done_callback(pass_on)
    ledger.record("0")
    assert ledger.statistics().completed == 10_000


def drive(waits: list[Wait], events: list[Event], rng: random.Random, end_ms: int) -> list[Outcome]:
    """The live ledger on these rows: at each instant submissions, then events at once, and sometimes expirations."""
    times = sorted({wait.submitted_at_ms or 0 for wait in waits} | {event.at_ms or 0 for event in events})
    clock = ManualClock(times[0] if times else 0)
    tickets: list[Ticket] = []
    with Ledger(clock=clock, reaper=False, key_retention_ms=None) as ledger:
        for now_ms in times:
            if rng.random() < 0.3:
                clock.advance(max(0, now_ms - 1 - clock.now_ms()))
                ledger.advance()
            clock.advance(now_ms - clock.now_ms())
            for wait in waits:
                if wait.submitted_at_ms == now_ms:
                    ticket = ledger.open(wait.op_id, wait.needs, wait.delay_ms, quorum=wait.quorum, volume=wait.volume)
                    tickets.append(ticket)
            ledger.record_many([(event.key, event.level) for event in events if event.at_ms == now_ms])
            assert balance(ledger.statistics()) == 0
        clock.advance(end_ms - clock.now_ms())
        ledger.advance()
        assert ledger.statistics().pending == 0
    return sorted({ticket.result(0) for ticket in tickets}, key=repr)


def test_a_live_ledger_gives_the_outcomes_of_the_contract() -> None:
    for seed in range(1500):
        rng = random.Random(seed)
        waits, events = random_history(rng)
        rows = [wait._replace(op_id=f"{n}") for n, wait in enumerate(waits) if model.own_fault(wait) is None]
        # Live, what completes at submission is told before the events of its instant are known: no such ties here.
        opened = {row.submitted_at_ms for row in rows}
        timed = [event for event in events if is_usable_event(event) and event.at_ms not in opened]
        deadlines = [(row.submitted_at_ms or 0) + (row.delay_ms or 0) for row in rows]
        end_ms = max([0, *deadlines, *(event.at_ms or 0 for event in timed)])
        assert drive(rows, timed, rng, end_ms) == model.outcomes(rows, timed), f"seed {seed}"
