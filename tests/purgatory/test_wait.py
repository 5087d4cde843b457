"""The reaper, closing it, and waiting in asyncio: the parts where real time is the subject."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from dwell.errors import InvalidArgument
from dwell.testing import ManualClock
from tests.builds import Build
from tests.purgatory.operation import probe_class


def signalling_class(build: Build) -> Any:
    class Signalling(probe_class(build)):  # type: ignore[misc]
        def __init__(self, delay_ms: int) -> None:
            super().__init__(delay_ms)
            self.over = threading.Event()

        def on_expiration(self) -> None:
            super().on_expiration()
            self.over.set()

    return Signalling


def test_the_reaper_expires_operations_by_itself(build: Build) -> None:
    with build.Purgatory("reaped") as purgatory:
        operation = signalling_class(build)(5)
        started_ms = purgatory.clock.now_ms()
        purgatory.try_complete_else_watch(operation, ["k"])
        assert operation.over.wait(10)
        assert purgatory.clock.now_ms() - started_ms >= 5
        assert operation.log == ["complete", "expire"]


def test_an_operation_that_is_due_before_the_reaper_looks_again_is_not_late(build: Build) -> None:
    """The reaper waits for 200 ms, but a bucket that expires first wakes it."""

    def seconds_until_expired() -> float:
        with build.Purgatory("reaped") as purgatory:
            purgatory.try_complete_else_watch(probe_class(build)(60_000), ["k"])
            time.sleep(0.02)
            operation = signalling_class(build)(10)
            started = time.monotonic()
            purgatory.try_complete_else_watch(operation, ["k"])
            assert operation.over.wait(10)
            return time.monotonic() - started

    assert any(seconds_until_expired() < 0.15 for _ in range(5))


def test_the_reaper_survives_what_operations_do(build: Build) -> None:
    errors: list[Any] = []
    with build.Purgatory("reaped", on_error=lambda *args: errors.append(args)) as purgatory:
        purgatory.try_complete_else_watch(probe_class(build)(1, then=lambda: 1 / 0), ["k"])
        operation = signalling_class(build)(10)
        purgatory.try_complete_else_watch(operation, ["k"])
        assert operation.over.wait(10)
    assert [type(error) for error, _ in errors] == [ZeroDivisionError]


def test_the_reaper_purges(build: Build) -> None:
    with build.Purgatory("reaped", purge_interval=10) as purgatory:
        operations = [probe_class(build)(60_000) for _ in range(20)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["a", "b"])
            operation.force_complete()
        deadline = time.monotonic() + 10
        while purgatory.watched and time.monotonic() < deadline:
            time.sleep(0.01)
        assert purgatory.watched == 0


@pytest.mark.parametrize("foreign", [False, True])
def test_closing_ends_the_reaper_at_once(build: Build, foreign: bool) -> None:
    def seconds_to_close() -> float:
        timer = build.SystemTimer("foreign") if foreign else None
        purgatory = build.Purgatory("reaped", timer=timer)
        purgatory.try_complete_else_watch(probe_class(build)(60_000), ["k"])
        assert purgatory._reaper._thread.is_alive()
        time.sleep(0.02)
        started = time.monotonic()
        purgatory.close()
        taken = time.monotonic() - started
        assert not purgatory._reaper._thread.is_alive()
        if timer is not None:
            timer.close()
        return taken

    assert any(seconds_to_close() < 0.1 for _ in range(5))


def test_a_purgatory_on_a_clock_that_stands_still_can_be_closed(build: Build) -> None:
    purgatory = build.Purgatory("still", clock=ManualClock())
    purgatory.close()
    assert not purgatory._reaper._thread.is_alive()


def test_a_callback_may_close_the_purgatory(build: Build) -> None:
    purgatory = build.Purgatory("self-closing")
    closed = threading.Event()

    def close() -> None:
        purgatory.close("cancel")
        closed.set()

    purgatory.try_complete_else_watch(probe_class(build)(1, then=close), ["k"])
    assert closed.wait(10)


def test_a_purgatory_without_reaper_starts_no_thread(build: Build, clock: ManualClock) -> None:
    before = threading.active_count()
    with build.Purgatory("quiet", clock=clock, reaper=False) as purgatory:
        operation = probe_class(build)(20, then=lambda: threads.append(threading.current_thread()))
        threads: list[threading.Thread] = []
        purgatory.try_complete_else_watch(operation, ["k"])
        clock.advance(20)
        purgatory.timer.advance_clock(0)
        assert threads == [threading.current_thread()]
        assert threading.active_count() == before


# asyncio


def test_an_outcome_can_be_awaited(build: Build) -> None:
    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            operation = probe_class(build)(60_000)
            waiting = asyncio.create_task(purgatory.wait(operation, ["k"]))
            await asyncio.sleep(0)
            operation.ready = True
            assert purgatory.check_and_complete("k") == 1
            assert await waiting is True
            expiring = probe_class(build)(5)
            assert await purgatory.wait(expiring, ["k"]) is False
            assert expiring.log == ["complete", "expire"], "the callbacks come first"
            at_once = probe_class(build)(60_000)
            at_once.ready = True
            assert await purgatory.wait(at_once, ["k"]) is True
            assert await purgatory.wait(at_once, ["k"]) is True

    asyncio.run(main())


def test_an_outcome_from_another_thread_wakes_the_loop(build: Build) -> None:
    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            operations = [probe_class(build)(60_000) for _ in range(100)]
            waits = [asyncio.create_task(purgatory.wait(o, ["k", i])) for i, o in enumerate(operations)]
            await asyncio.sleep(0)

            def complete() -> None:
                for operation in operations:
                    operation.ready = True
                purgatory.check_and_complete("k")

            thread = threading.Thread(target=complete)
            thread.start()
            assert await asyncio.wait_for(asyncio.gather(*waits), 10) == [True] * 100
            thread.join()

    asyncio.run(main())


def test_a_wait_that_is_cancelled_takes_its_operation_out(build: Build) -> None:
    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            operation = probe_class(build)(60_000)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(purgatory.wait(operation, ["k"]), 0.01)
            assert purgatory.num_delayed == 0
            operation.ready = True
            assert purgatory.check_and_complete("k") == 0
            assert operation.log == []

    asyncio.run(main())


def test_cancelling_in_the_purgatory_cancels_the_wait(build: Build) -> None:
    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            waits = [asyncio.create_task(purgatory.wait(probe_class(build)(60_000), [key])) for key in "ab"]
            await asyncio.sleep(0)
            purgatory.cancel_for_key("a")
            purgatory.close("cancel")
            await asyncio.wait(waits)
            assert all(wait.cancelled() for wait in waits)

    asyncio.run(main())


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
def test_an_awaited_operation_that_is_cancelled_by_key_counts_once(build: Build, keys: list[str]) -> None:
    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            operation = probe_class(build)(60_000)
            waiting = asyncio.create_task(purgatory.wait(operation, keys))
            await asyncio.sleep(0)
            assert purgatory.cancel_for_key("a") == [operation]
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            assert purgatory.statistics().cancelled == 1
            operation.ready = True
            assert purgatory.check_and_complete("b") == 0, "who awaited it is gone, so no other key completes it"

    asyncio.run(main())


def test_awaiting_an_operation_that_has_its_outcome_returns_that_outcome(build: Build) -> None:
    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            expired, completed = probe_class(build)(0), probe_class(build)(60_000)
            assert await purgatory.wait(expired, ["k"]) is False
            assert await purgatory.wait(expired, ["k"]) is False
            completed.force_complete()
            assert await purgatory.wait(completed, ["k"]) is True
            by_hand = probe_class(build)(60_000)
            by_hand.run()
            assert await purgatory.wait(by_hand, ["k"]) is False

    asyncio.run(main())


@pytest.mark.parametrize("expire", [False, True])
def test_awaiting_an_operation_whose_callbacks_run_returns_after_them(build: Build, expire: bool) -> None:
    inside, go = threading.Event(), threading.Event()

    class Slow(probe_class(build)):  # type: ignore[misc]
        def on_complete(self) -> None:
            inside.set()
            go.wait(10)
            super().on_complete()

    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            operation = Slow(60_000)
            thread = threading.Thread(target=operation.run if expire else operation.force_complete)
            thread.start()
            await asyncio.to_thread(inside.wait, 10)
            assert operation.is_completed
            waiting = asyncio.create_task(purgatory.wait(operation, ["k"]))
            await asyncio.sleep(0)
            assert not waiting.done()
            go.set()
            assert await asyncio.wait_for(waiting, 10) is not expire
            assert operation.log == (["complete", "expire"] if expire else ["complete"])
            thread.join(10)

    asyncio.run(main())


def test_an_awaited_operation_whose_callback_is_interrupted_does_not_keep_its_waiter(build: Build) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            operation = probe_class(build)(60_000, then=interrupt)
            waiting = asyncio.create_task(purgatory.wait(operation, ["k"]))
            await asyncio.sleep(0)
            with pytest.raises(KeyboardInterrupt):
                operation.force_complete()
            assert await asyncio.wait_for(waiting, 10) is True

    asyncio.run(main())


def test_one_operation_is_awaited_by_one(build: Build) -> None:
    async def main() -> None:
        with build.Purgatory("awaited") as purgatory:
            operation = probe_class(build)(60_000)
            first = asyncio.create_task(purgatory.wait(operation, ["k"]))
            await asyncio.sleep(0)
            with pytest.raises(InvalidArgument, match="waits already"):
                await purgatory.wait(operation, ["k"])
            operation.force_complete()
            assert await first is True

    asyncio.run(main())


def test_an_event_loop_can_drive_the_purgatory_without_a_thread(build: Build) -> None:
    async def main() -> None:
        threads = threading.active_count()
        async with build.LoopTimer() as timer:
            with build.Purgatory("looped", timer=timer, reaper=False, purge_interval=10) as purgatory:
                assert await purgatory.wait(probe_class(build)(5), ["k"]) is False
                operation = probe_class(build)(60_000)
                waiting = asyncio.create_task(purgatory.wait(operation, ["k"]))
                await asyncio.sleep(0)
                operation.ready = True
                assert purgatory.check_and_complete("k") == 1
                assert await waiting is True
                for number in range(30):
                    done = probe_class(build)(60_000)
                    purgatory.try_complete_else_watch(done, [number])
                    done.force_complete()
                assert purgatory.watched < 20, "nobody advances it, so it purges as it goes"
        assert threading.active_count() == threads

    asyncio.run(main())


def test_an_operation_that_somebody_completed_before_it_was_watched_does_not_keep_its_waiter(build: Build) -> None:
    class Early(build.Purgatory):  # type: ignore[name-defined,misc]
        def try_complete_else_watch(self, operation: Any, watch_keys: Any) -> bool:
            operation.force_complete()
            return bool(super().try_complete_else_watch(operation, watch_keys))

    async def main() -> None:
        with Early("early") as purgatory:
            assert await asyncio.wait_for(purgatory.wait(probe_class(build)(60_000), ["k"]), 10) is True

    asyncio.run(main())
