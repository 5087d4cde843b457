"""The thread that expires waits outlives whatever the user's code does to it, and is woken in time."""

from __future__ import annotations

import threading

import pytest

from dwell.clock import SystemClock
from dwell.ledger import Ledger, Need, Ticket
from tests.builds import Build


class BrokenClock(Exception):
    pass


class FlakyClock:
    """The system clock, but for the reads by the reaper that are named in `broken`, counted from 0."""

    def __init__(self, broken: range) -> None:
        self.broken, self.reads, self.is_broken_for_all = broken, 0, False
        self.now = SystemClock()

    def now_ms(self) -> int:
        if self.is_broken_for_all:
            raise BrokenClock
        if threading.current_thread().name.startswith("dwell-"):
            self.reads += 1
            if self.reads - 1 in self.broken:
                raise BrokenClock
        return self.now.now_ms()


@pytest.fixture(autouse=True)
def _never_poll(build: Build, live_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not woken in time sleeps for an hour."""
    monkeypatch.setattr(build.module(live_module), "POLL_MS", 3_600_000)


@pytest.mark.parametrize("broken", [range(n, n + length) for n in range(5) for length in (1, 3)], ids=str)
def test_a_clock_that_raises_is_reported_and_waits_still_expire(broken: range) -> None:
    errors: list[BaseException] = []
    with Ledger(clock=FlakyClock(broken), on_error=lambda error, _source: errors.append(error)) as ledger:
        for op_id in ("first", "second", "third"):
            assert ledger.open(op_id, [Need("a")], 2).result(20).outcome == "expired"
    assert {type(error) for error in errors} <= {BrokenClock}
    if broken.start < 3:
        assert len(errors) >= 1


def test_an_earlier_deadline_wakes_the_reaper() -> None:
    with Ledger() as ledger:
        late = ledger.open("late", [Need("a")], 3_600_000)
        assert ledger.open("soon", [Need("a")], 2).result(20).outcome == "expired"
        assert ledger.open("sooner", [Need("a")], 0).result(20).outcome == "expired"
        assert late.outcome is None


def test_a_callback_that_exits_does_not_end_the_reaper() -> None:
    def leave(_ticket: Ticket) -> None:
        raise SystemExit(3)

    errors: list[BaseException] = []
    with Ledger(on_error=lambda error, _source: errors.append(error)) as ledger:
        first = ledger.open("first", [Need("a")], 50)
        first.add_done_callback(leave)
        assert first.result(20).outcome == "expired"
        assert ledger.open("second", [Need("a")], 2).result(20).outcome == "expired"
    assert [type(error) for error in errors] == [SystemExit]


@pytest.mark.parametrize("reaper", [True, False])
def test_a_ledger_whose_clock_raises_can_be_closed(reaper: bool) -> None:
    clock = FlakyClock(range(0))
    errors: list[BaseException] = []
    ledger = Ledger("broken", clock=clock, reaper=reaper, on_error=lambda error, _source: errors.append(error))
    ticket = ledger.open("x", [Need("a")], 3_600_000)
    clock.is_broken_for_all = True
    ledger.close()
    assert ticket.result(0).outcome == "cancelled"
    assert {type(error) for error in errors} == {BrokenClock}
    assert not any(thread.name == "dwell-broken" for thread in threading.enumerate())
