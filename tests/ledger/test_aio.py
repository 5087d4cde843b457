from __future__ import annotations

import asyncio
import threading

import pytest

from dwell.ledger import Ledger, Need, Outcome
from dwell.testing import ManualClock


def test_await_gives_the_outcome_from_the_same_loop() -> None:
    async def main() -> Outcome:
        with Ledger() as ledger:
            ticket = ledger.open("x", [Need("a")], 60_000)
            asyncio.get_running_loop().call_soon(ledger.record, "a")
            assert (await ticket).completed_by == "a"
            return await ticket

    assert asyncio.run(main()).outcome == "completed"


def test_await_gives_the_outcome_from_another_thread() -> None:
    async def main() -> list[Outcome]:
        with Ledger() as ledger:
            tickets = [ledger.open(f"{n}", [Need("a")], 60_000) for n in range(100)]
            threading.Timer(0.01, ledger.record, ("a",)).start()
            return list(await asyncio.gather(*[waiting(ledger, ticket.op_id, ticket) for ticket in tickets]))

    async def waiting(_ledger: Ledger, _op_id: str | None, ticket: object) -> Outcome:
        outcome: Outcome = await ticket  # type: ignore[misc]
        return outcome

    assert {outcome.outcome for outcome in asyncio.run(main())} == {"completed"}


def test_await_ends_when_the_reaper_expires_the_wait() -> None:
    async def main() -> Outcome:
        with Ledger() as ledger:
            return await ledger.open("x", [Need("a")], 5)

    assert asyncio.run(main()).waited_ms == 5


def test_a_cancelled_coroutine_leaves_the_wait_open() -> None:
    async def main() -> None:
        with Ledger(clock=ManualClock(), reaper=False) as ledger:
            ticket = ledger.open("x", [Need("a")], 60_000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await ticket
            assert ticket.outcome is None
            assert ticket._operation.waiters is None
            ledger.record("a")
            assert (await ticket).outcome == "completed"

    asyncio.run(main())


def test_a_loop_that_was_closed_harms_nobody() -> None:
    with Ledger(clock=ManualClock(), reaper=False) as ledger:
        ticket = ledger.open("x", [Need("a")], 60_000)
        loop = asyncio.new_event_loop()
        future = loop.create_future()
        ledger._add_waiter(ticket._operation, future)
        loop.close()
        assert ledger.record("a") == 1
        assert ticket.result(0).outcome == "completed"
