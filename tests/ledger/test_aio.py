from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Generator

import pytest

from dwell.ledger import Ledger, Need, Outcome, Ticket
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
            assert not ticket._operation.waiters
            ledger.record("a")
            assert (await ticket).outcome == "completed"

    asyncio.run(main())


def test_cancelling_one_of_several_leaves_the_others_waiting() -> None:
    async def main() -> None:
        with Ledger(clock=ManualClock(), reaper=False) as ledger:
            ticket = ledger.open("x", [Need("a")], 60_000)

            async def wait() -> str:
                return (await ticket).outcome

            for count in (2, 3):
                tasks = [asyncio.create_task(wait()) for _ in range(count)]
                await asyncio.sleep(0)
                for task in tasks[:-1]:
                    task.cancel()
                await asyncio.wait(tasks[:-1])
                assert all(task.cancelled() for task in tasks[:-1])
                assert not tasks[-1].done()
                if count == 3:
                    assert ledger.record("a") == 1
                    assert await tasks[-1] == "completed"
                else:
                    tasks[-1].cancel()
                    await asyncio.wait(tasks)
                assert not ticket._operation.waiters

    asyncio.run(main())


def test_a_task_cancelled_after_the_outcome_but_before_it_wakes_is_cancelled() -> None:
    async def main() -> None:
        with Ledger(clock=ManualClock(), reaper=False) as ledger:
            ticket = ledger.open("x", [Need("a")], 60_000)

            async def wait() -> None:
                await ticket

            woken, other = asyncio.create_task(wait()), asyncio.create_task(wait())
            await asyncio.sleep(0)
            thread = threading.Thread(target=ledger.record, args=("a",))
            thread.start()
            thread.join()
            assert other.cancel()
            await asyncio.wait([woken, other])
            assert other.cancelled()
            assert woken.exception() is None

    asyncio.run(main())


def test_tickets_work_with_what_asyncio_does_to_awaitables() -> None:
    async def main() -> None:
        with Ledger(clock=ManualClock(), reaper=False) as ledger:
            tickets = [ledger.open(f"{n}", [Need("a", n)], 60_000) for n in range(1, 5)]
            assert ledger.record("a", 0) == 0
            gathered = asyncio.gather(*tickets[:2])
            shielded = asyncio.shield(tickets[2])
            timed = asyncio.create_task(asyncio.wait_for(tickets[3], 60))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert ledger.record("a", 4) == 4
            outcomes = [*await gathered, await shielded, await timed]
            assert [outcome.op_id for outcome in outcomes] == ["1", "2", "3", "4"]

    asyncio.run(main())


def test_an_exception_thrown_into_the_coroutine_gives_its_place_up() -> None:
    async def wait(ticket: Ticket) -> None:
        await ticket

    async def main() -> None:
        with Ledger(clock=ManualClock(), reaper=False) as ledger:
            ticket = ledger.open("x", [Need("a")], 60_000)
            for leave in ("throw", "close"):
                coroutine = wait(ticket)
                coroutine.send(None)
                assert ticket._operation.waiters
                if leave == "throw":
                    with pytest.raises(ValueError, match="enough"):
                        coroutine.throw(ValueError("enough"))
                else:
                    coroutine.close()
                assert not ticket._operation.waiters

    asyncio.run(main())


def test_a_ticket_is_awaited_in_a_running_loop_only() -> None:
    with (
        Ledger(clock=ManualClock(), reaper=False) as ledger,
        pytest.raises(RuntimeError, match="no running event loop"),
    ):
        next(ledger.open("x", [Need("a")], 60_000).__await__())


def test_a_settled_ticket_is_awaited_without_a_loop() -> None:
    with Ledger(clock=ManualClock(), reaper=False) as ledger:
        ticket = ledger.open("x", [], 5)
        with pytest.raises(StopIteration) as end:
            next(ticket.__await__())
        assert end.value.value == ticket.outcome


def test_who_cancels_is_quoted() -> None:
    async def main() -> None:
        with Ledger(clock=ManualClock(), reaper=False) as ledger:
            ticket = ledger.open("x", [Need("a")], 60_000)

            async def wait() -> None:
                await ticket

            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel("shutting down")
            with pytest.raises(asyncio.CancelledError, match="shutting down"):
                await task

    asyncio.run(main())


def test_an_outcome_between_the_await_and_its_callback_wakes_the_task() -> None:
    class Recording:
        """An awaitable that has the event happen as soon as the wait is known."""

        def __init__(self, ticket: Ticket, record: Callable[[str], object]) -> None:
            self.ticket, self.record = ticket, record

        def __await__(self) -> Generator[object, None, Outcome]:
            waiting = self.ticket.__await__()
            first = next(waiting)
            self.record("a")
            yield first
            with pytest.raises(StopIteration) as end:
                next(waiting)
            outcome: Outcome = end.value.value
            return outcome

    async def main() -> Outcome:
        with Ledger(clock=ManualClock(), reaper=False) as ledger:
            ticket = ledger.open("x", [Need("a")], 60_000)
            return await asyncio.wait_for(Recording(ticket, ledger.record), 5)

    assert asyncio.run(main()).outcome == "completed"


def test_a_loop_that_was_closed_harms_nobody() -> None:
    with Ledger(clock=ManualClock(), reaper=False) as ledger:
        ticket = ledger.open("x", [Need("a")], 60_000)

        async def wait() -> Outcome:
            return await ticket

        async def start() -> weakref.ref[asyncio.Task[Outcome]]:
            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            return weakref.ref(task)

        loop = asyncio.new_event_loop()
        task = loop.run_until_complete(start())
        loop.close()
        assert ledger.record("a") == 1
        assert ticket.result(0).outcome == "completed"
        gc.collect()
        assert task() is None
