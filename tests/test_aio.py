"""The wheel on an event loop. Time is a manual clock; the loop is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dwell.aio import LoopTimer
from dwell.errors import Closed, InvalidArgument
from dwell.testing import ManualClock
from tests.builds import Build

Scene = Callable[[LoopTimer, ManualClock], Coroutine[Any, Any, None]]
Play = Callable[[Scene], None]


@pytest.fixture
def play(build: Build) -> Play:
    def run(scene: Scene) -> None:
        async def main() -> None:
            clock = ManualClock()
            async with build.LoopTimer(clock=clock) as timer:
                await scene(timer, clock)

        asyncio.run(main())

    return run


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def move(timer: LoopTimer, clock: ManualClock, ms: int) -> None:
    clock.advance(ms)
    timer.advance_clock()
    await settle()


def test_a_sleep_ends_at_its_time_and_not_before(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        sleep = asyncio.ensure_future(timer.sleep(100))
        await settle()
        await move(timer, clock, 99)
        assert not sleep.done()
        await move(timer, clock, 1)
        assert sleep.done()
        assert timer.size == 0

    play(scene)


def test_a_cancelled_sleep_leaves_the_timer(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        sleep = asyncio.ensure_future(timer.sleep(100))
        await settle()
        sleep.cancel()
        await settle()
        assert sleep.cancelled()
        assert timer.size == 0

    play(scene)


def test_a_timeout_raises_inside_and_is_gone_when_the_block_ends_first(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        async def late() -> str:
            async with timer.timeout(50) as timeout:
                try:
                    await asyncio.Event().wait()
                finally:
                    assert timeout.expired
            return "not reached"

        async def in_time() -> str:
            async with timer.timeout(50) as timeout:
                await asyncio.sleep(0)
            assert not timeout.expired
            return "done"

        first, second = asyncio.ensure_future(late()), asyncio.ensure_future(in_time())
        await settle()
        assert second.result() == "done"
        assert timer.size == 1
        await move(timer, clock, 50)
        assert isinstance(first.exception(), TimeoutError)
        assert not first.cancelled()

    play(scene)


def test_a_cancellation_from_outside_is_not_taken_for_a_timeout(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        task = asyncio.ensure_future(timer.wait_for(asyncio.Event().wait(), 50))
        await settle()
        task.cancel()
        await settle()
        assert task.cancelled()
        assert timer.size == 0

    play(scene)


def test_nested_timeouts_blame_the_right_one(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        seen: list[str] = []

        async def body() -> None:
            try:
                async with timer.timeout(10):
                    try:
                        async with timer.timeout(20):
                            await asyncio.Event().wait()
                    except TimeoutError:
                        seen.append("inner")
            except TimeoutError:
                seen.append("outer")

        task = asyncio.ensure_future(body())
        await settle()
        await move(timer, clock, 10)
        assert seen == ["outer"]
        assert task.done()

    play(scene)


def test_a_timeout_can_be_rescheduled_and_entered_once(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        async with timer.timeout(10) as timeout:
            timeout.reschedule(100)
            await move(timer, clock, 50)
            with pytest.raises(RuntimeError, match="once"):
                async with timeout:
                    pass

    play(scene)


def test_a_timeout_of_zero_does_not_cancel_what_comes_after_its_block(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        async def body() -> str:
            async with timer.timeout(0) as timeout:
                pass
            async with timer.timeout(10_000) as moved:
                moved.reschedule(0)
            await settle()
            assert not timeout.expired
            assert not moved.expired
            return "done"

        assert await asyncio.ensure_future(body()) == "done"

    play(scene)


def test_a_timeout_is_rescheduled_inside_its_block_only_and_not_once_it_has_expired(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        timeout = timer.timeout(10)
        with pytest.raises(RuntimeError, match="not been entered"):
            timeout.reschedule(5)
        async with timeout:
            pass
        with pytest.raises(RuntimeError, match="is over"):
            timeout.reschedule(0)
        await settle()

        async def body() -> None:
            async with timer.timeout(10) as expiring:
                try:
                    await asyncio.Event().wait()
                finally:
                    with pytest.raises(RuntimeError, match="is over"):
                        expiring.reschedule(0)
                    await settle()

        task = asyncio.ensure_future(body())
        await settle()
        await move(timer, clock, 10)
        await settle()
        assert isinstance(task.exception(), TimeoutError)
        assert timer.size == 0

    play(scene)


def test_wait_for_gives_the_result(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        assert await timer.wait_for(asyncio.sleep(0, "x"), 50) == "x"
        assert timer.size == 0

    play(scene)


def test_a_task_due_as_it_comes_does_not_run_before_add_returns(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        ran: list[int] = []
        timer.schedule(0, lambda: ran.append(1))
        assert ran == []
        await settle()
        assert ran == [1]

    play(scene)


def test_an_exception_goes_to_the_loops_handler_and_harms_nobody(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        contexts: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: contexts.append(context))
        ran: list[int] = []
        timer.schedule(5, lambda: 1 // 0)
        timer.schedule(5, lambda: ran.append(1))
        await move(timer, clock, 5)
        assert ran == [1]
        assert isinstance(contexts[0]["exception"], ZeroDivisionError)

    play(scene)


def test_close_tells_who_sleeps_and_who_is_inside_a_timeout(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        sleep = asyncio.ensure_future(timer.sleep(100))
        wait = asyncio.ensure_future(timer.wait_for(asyncio.Event().wait(), 100))
        await settle()
        timer.close()
        timer.close()
        await settle()
        assert isinstance(sleep.exception(), Closed)
        assert isinstance(wait.exception(), Closed)
        with pytest.raises(Closed):
            timer.schedule(1, int)

    play(scene)


def test_close_lets_what_is_due_run(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        ran: list[int] = []
        timer.schedule(0, lambda: ran.append(1))
        sleep = asyncio.ensure_future(timer.sleep(0))
        wait = asyncio.ensure_future(timer.wait_for(asyncio.Event().wait(), 0))
        await asyncio.sleep(0)
        timer.schedule(0, lambda: ran.append(2))
        timer.close()
        await settle()
        assert ran == [1, 2]
        assert sleep.done()
        assert sleep.exception() is None
        assert isinstance(wait.exception(), TimeoutError)

    play(scene)


def test_close_after_an_interrupt_lets_what_is_due_run(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        sleep = asyncio.ensure_future(timer.sleep(5))
        await settle()
        timer.schedule(5, interrupt)
        second = asyncio.ensure_future(timer.sleep(5))
        await settle()
        clock.advance(5)
        with pytest.raises(KeyboardInterrupt):
            timer.advance_clock()
        timer.close()
        await settle()
        assert sleep.done()
        assert second.done()
        assert second.exception() is None

    play(scene)


def test_it_does_not_block(play: Play) -> None:
    async def scene(timer: LoopTimer, clock: ManualClock) -> None:
        with pytest.raises(InvalidArgument, match="timeout_ms must be 0"):
            timer.advance_clock(5)

    play(scene)


def test_the_loop_turns_the_wheel_by_itself_in_real_time(build: Build) -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def sleeper(timer: LoopTimer, ms: int) -> None:
            await timer.sleep(ms)
            order.append(ms)

        async with build.LoopTimer() as timer:
            await asyncio.gather(*(sleeper(timer, ms) for ms in (45, 5, 25, 1)))
            statistics = timer.statistics()
        assert (statistics.fired, statistics.pending) == (4, 0)
        return order

    assert asyncio.run(main()) == [1, 5, 25, 45]
