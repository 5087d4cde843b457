"""A ledger that is interrupted: by signals, by exits, by calls from within."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from dwell.ledger import Ledger, Need, Outcome, Ticket
from dwell.testing import ManualClock


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger(clock=ManualClock(), reaper=False) as ledger:
        yield ledger


def test_nobodys_code_runs_inside_the_ledger(ledger: Ledger) -> None:
    class Key(str):
        """Equal to nothing, and not to be hashed."""

        def __hash__(self) -> int:
            raise AssertionError

        def __eq__(self, other: object) -> bool:
            return False

    assert ledger.record(Key("a"), 1) == 0
    ticket = ledger.open(Key("x"), [Need(Key("a"), 1)], 5)
    assert ticket.outcome == Outcome("x", "completed", 0, 0, "a")


class SlowClock:
    """Does something the second time a thread reads it in `open`, which is under the ledger's lock."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do, self.reads, self.thread = do, 0, threading.current_thread()

    def now_ms(self) -> int:
        if self.reads and threading.current_thread() is self.thread:
            self.reads -= 1
            if self.reads == 0:
                self.do()
        return 0


def test_a_ledger_called_from_within_itself_says_so_and_goes_on() -> None:
    clock = SlowClock(lambda: within.record("from within"))
    with Ledger(clock=clock) as within:
        clock.reads = 2
        with pytest.raises(RuntimeError, match="called from within itself"):
            within.open("x", [Need("a")], 1000)
        assert within.open("y", [Need("a")], 1000).outcome is None
        assert within.record("a") == 2


def test_a_callback_that_exits_keeps_nobody_from_being_told(ledger: Ledger) -> None:
    def leave(_ticket: Ticket) -> None:
        raise SystemExit(3)

    told: list[str | None] = []
    tickets = [ledger.open(f"{n}", [Need("a")], 20) for n in range(3)]
    tickets[0].add_done_callback(leave)
    for ticket in tickets:
        ticket.add_done_callback(lambda ticket: told.append(ticket.op_id))
    with pytest.raises(SystemExit):
        ledger.record("a")
    assert told == ["0", "1", "2"]


def test_a_thread_interrupted_in_its_wait_leaves_nothing_behind(ledger: Ledger) -> None:
    ticket = ledger.open("x", [Need("a")], 20)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(KeyboardInterrupt):
            ticket.result(10)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ticket._operation.waiters is None


def test_a_signal_handler_may_call_the_ledger_whose_lock_its_thread_waits_for() -> None:
    holding, handled = threading.Event(), threading.Event()

    def hold() -> None:
        holding.set()
        handling.wait(10)
        time.sleep(0.05)

    def handle(*_: object) -> None:
        handling.set()
        shared.record("signal")
        handled.set()

    handling = threading.Event()
    clock = SlowClock(hold)
    with Ledger(clock=clock) as shared:
        holder = threading.Thread(target=lambda: shared.open("x", [Need("a")], 1000))
        clock.thread, clock.reads = holder, 2
        before = signal.signal(signal.SIGALRM, handle)
        try:
            holder.start()
            assert holding.wait(10)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            shared.record("main")
            holder.join(10)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert handled.is_set()
        assert shared.statistics().recorded == 2
