"""A ledger that is interrupted: by signals, by exits, by calls from within."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

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


class LastWords(Need):
    """A need that does something when it is freed. The ledger frees it under its lock, when it forgets the wait."""

    do: Callable[[], object] = print

    def __del__(self) -> None:
        self.do()


def forget(ledger: Ledger, clock: ManualClock, do: Callable[[], object]) -> Callable[[], int]:
    """A call that has the ledger run `do` under its lock."""
    need = LastWords("last")
    need.do = do
    ledger.open("forgotten", [need], 1)
    del need
    ledger.record("last")
    clock.advance(2)
    return lambda: ledger.record("other")


def test_a_ledger_called_from_within_itself_says_so_and_goes_on() -> None:
    def call() -> None:
        with pytest.raises(RuntimeError, match="called from within itself") as caught:
            within.record("from within")
        errors.append(caught.value)

    errors: list[BaseException] = []
    clock = ManualClock()
    with Ledger(clock=clock, reaper=False, op_retention_ms=0) as within:
        ticket = within.open("y", [Need("a")], 1000)
        forget(within, clock, call)()
        assert len(errors) == 1
        assert within.record("a") == 1
        assert ticket.outcome is not None


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
    assert not ticket._operation.waiters


def test_a_signal_handler_may_call_the_ledger_whose_lock_its_thread_waits_for() -> None:
    holding, handling, handled = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        holding.set()
        handling.wait(10)
        time.sleep(0.05)

    def handle(*_: object) -> None:
        handling.set()
        shared.record("signal")
        handled.set()

    clock = ManualClock()
    with Ledger(clock=clock, reaper=False, op_retention_ms=0) as shared:
        holder = threading.Thread(target=forget(shared, clock, hold))
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
        assert shared.statistics().recorded == 4


def test_the_lock_is_given_back_when_memory_runs_out() -> None:
    testcapi = pytest.importorskip("_testcapi", reason="this Python comes without its own test module")
    failed = 0
    for allocations in range(60):
        ledger = Ledger(clock=ManualClock(), reaper=False)
        ticket = ledger.open("x", [Need("a")], 20)
        told: list[Ticket] = []
        ticket.add_done_callback(told.append)
        for call in (partial(ledger.open, "y", (Need("a"),), 20), partial(ledger.record, "a"), ticket.cancel):
            testcapi.set_nomemory(allocations, allocations + 1)
            try:
                call()
            except MemoryError:
                failed += 1
            finally:
                testcapi.remove_mem_hooks()
            ledger.statistics()
        ticket.cancel()
        assert ticket.outcome is not None
    assert failed > 0
