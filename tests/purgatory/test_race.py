"""Threads that really race: nothing is lost, nothing happens twice, and callbacks of one operation never overlap."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from dwell.errors import Closed
from dwell.testing import ManualClock
from dwell.timer import InlineExecutor
from tests.builds import Build


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def race(*bodies: Callable[[], object]) -> None:
    """Run the bodies at once, each in a thread; re-raise what one of them raised."""
    start, failures = threading.Barrier(len(bodies)), []

    def run(body: Callable[[], object]) -> None:
        try:
            start.wait(30)
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    if failures:
        raise failures[0]


def counted_class(build: Build) -> Any:
    class Counted(build.DelayedOperation):  # type: ignore[name-defined,misc]
        """Notices overlapping callbacks: `inside` is only ever touched under the operation's lock, or not at all."""

        def __init__(self, delay_ms: int, lock: Any = None) -> None:
            super().__init__(delay_ms, lock)
            self.ready = False
            self.inside = 0
            self.overlaps = 0
            self.completions = 0
            self.expirations = 0

        def try_complete(self) -> bool:
            self.enter()
            ready = self.ready
            self.inside -= 1
            return ready and self.force_complete()

        def on_complete(self) -> None:
            self.enter()
            self.completions += 1
            self.inside -= 1

        def on_expiration(self) -> None:
            self.expirations += 1

        def enter(self) -> None:
            self.overlaps += self.inside
            self.inside += 1
            for _ in range(3):
                pass  # room for a switch of threads

    return Counted


@pytest.mark.parametrize("shared_lock", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_one_operation_completed_by_many_threads_completes_once(build: Build, seed: int, shared_lock: bool) -> None:
    choice = random.Random(seed)
    for _ in range(20):
        operation = counted_class(build)(1000, threading.RLock() if shared_lock else None)
        wins: list[bool] = []

        def ready_and_try(operation: Any = operation, wins: list[bool] = wins) -> None:
            operation.ready = True
            wins.append(operation.safe_try_complete())

        ways = [lambda o=operation, w=wins: w.append(o.force_complete()), ready_and_try, operation.run]
        race(*choice.choices(ways, k=6))
        assert operation.completions == 1
        assert operation.overlaps == 0
        assert sum(wins) + operation.expirations == 1


@pytest.mark.parametrize("seed", range(10))
def test_what_becomes_true_while_it_is_being_watched_is_never_missed(build: Build, seed: int) -> None:
    """The watcher and the one that makes it true race; whoever is second has to notice."""
    choice = random.Random(seed)
    with build.Purgatory("race", reaper=False) as purgatory:
        for number in range(100):
            keys = [f"{number}-{i}" for i in range(choice.randint(1, 4))]
            operation = counted_class(build)(1_000_000)

            def make_true(operation: Any = operation, keys: list[str] = keys) -> None:
                operation.ready = True
                purgatory.check_and_complete(choice.choice(keys))

            race(partial(purgatory.try_complete_else_watch, operation, keys), make_true)
            assert operation.completions == 1, "a completion was lost"
            assert purgatory.num_delayed == 0
        purgatory.purge()
        assert purgatory.watched == 0
        purgatory._check()


@pytest.mark.parametrize("seed", range(6))
def test_every_operation_gets_one_outcome_when_all_threads_do_everything(build: Build, seed: int) -> None:
    errors: list[Any] = []
    per_thread, keys = 300, [f"k{i}" for i in range(7)]
    everything: list[Any] = []
    cancelled: list[Any] = []
    with build.Purgatory("race", purge_interval=20, on_error=lambda *args: errors.append(args)) as purgatory:

        def worker(number: int) -> None:
            choice = random.Random(seed * 100 + number)
            mine = []
            for _ in range(per_thread):
                operation = counted_class(build)(choice.choice([0, 1, 2, 5, 60_000]))
                mine.append(operation)
                everything.append(operation)
                purgatory.try_complete_else_watch(operation, choice.sample(keys, choice.randint(1, 4)))
                action = choice.random()
                if action < 0.5:
                    choice.choice(mine).ready = True
                    purgatory.check_and_complete(choice.choice(keys))
                elif action < 0.6:
                    choice.choice(mine).force_complete()
                elif action < 0.63:
                    cancelled.extend(purgatory.cancel_for_key(choice.choice(keys)))
                elif action < 0.66:
                    purgatory.purge()

        race(*[lambda number=number: worker(number) for number in range(4)])
        for operation in everything:
            operation.ready = True
        for key in keys:
            purgatory.check_and_complete(key)
        deadline = time.monotonic() + 30
        unsettled = set(everything) - set(cancelled)
        while not all(o.completions for o in unsettled) and time.monotonic() < deadline:
            time.sleep(0.005)
        purgatory._check()
    # After closing, so that the reaper has counted what it completed last.
    statistics = purgatory.statistics()
    assert errors == []
    assert all(operation.completions == 1 for operation in unsettled)
    assert all(operation.completions <= 1 for operation in everything)
    assert all(operation.overlaps == 0 for operation in everything)
    assert statistics.completed + statistics.expired == sum(operation.completions for operation in everything)
    assert statistics.expired == sum(operation.expirations for operation in everything)


@pytest.mark.parametrize("policy", ["expire", "cancel"])
@pytest.mark.parametrize("seed", range(5))
def test_an_operation_watched_while_the_purgatory_closes_is_refused_or_settled(
    build: Build, policy: Any, seed: int
) -> None:
    for _ in range(10):
        purgatory = build.Purgatory("race", reaper=bool(seed % 2))
        refused: list[Any] = []
        watched: list[Any] = []

        def watch(purgatory: Any = purgatory, watched: list[Any] = watched, refused: list[Any] = refused) -> None:
            for number in range(30):
                operation = counted_class(build)(60_000)
                try:
                    purgatory.try_complete_else_watch(operation, [number, "all"])
                    watched.append(operation)
                except Closed:
                    refused.append(operation)

        race(watch, watch, partial(purgatory.close, policy))
        assert all(operation.completions == 1 or operation.is_cancelled for operation in watched)
        assert len(watched) + len(refused) == 60
        assert purgatory.num_delayed == 0


@pytest.mark.parametrize("seed", range(4))
def test_an_operation_taken_by_threads_in_turn_is_never_held_by_two(build: Build, seed: int) -> None:
    """The compiled build's lock is its own; here threads queue for one lock, each holding it over many switches."""
    held, overlaps, total = [0], [0], [0]

    class Slow(build.DelayedOperation):  # type: ignore[name-defined,misc]
        def try_complete(self) -> bool:
            held[0] += 1
            overlaps[0] += held[0] - 1
            for _ in range(50):
                total[0] += 1
            if random.Random(seed + total[0]).random() < 0.02:
                time.sleep(0.0001)
            held[0] -= 1
            return False

    operation = Slow(1000)

    def hammer() -> None:
        for _ in range(100):
            operation.safe_try_complete()

    race(*[hammer] * 6)
    assert overlaps == [0]
    assert total == [6 * 100 * 50]


def test_a_long_purge_does_not_stop_others(build: Build) -> None:
    """340,000 watchers on one key: another thread goes on to watch the very same key while it is purged."""
    size = 340_000 if build.name == "compiled" else 34_000

    class Waiting(build.DelayedOperation):  # type: ignore[name-defined,misc]
        __slots__ = ()

        def try_complete(self) -> bool:
            return False

    with build.Purgatory("large", reaper=False, purge_interval=10**9) as purgatory:
        operations = [Waiting(60_000) for _ in range(size)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["large"])
        state, late, during = ["before"], [], []

        def watch() -> None:
            while state[0] != "after":
                seen = state[0]
                operation = Waiting(60_000)
                purgatory.try_complete_else_watch(operation, ["large"])
                late.append(operation)
                during.append(seen == state[0] == "purging")

        def purge() -> None:
            # Rounds, since a busy machine may not let the other thread run at all during one short purge.
            for start in range(20):
                for operation in operations[start::20]:
                    operation.force_complete()
                state[0] = "purging"
                assert purgatory.purge() == size // 20
                state[0] = "between"
                if sum(during) >= 2:
                    break
                time.sleep(0.001)
            state[0] = "after"

        race(watch, purge)
        assert sum(during) >= 2, "nothing got in between"
        assert purgatory.watched == sum(not operation.is_completed for operation in operations) + len(late)
        purgatory._check()


def test_a_signal_interrupts_the_wait_for_an_operations_lock_and_leaves_it_usable(build: Build) -> None:
    inside, go = threading.Event(), threading.Event()

    class Held(build.DelayedOperation):  # type: ignore[name-defined,misc]
        def try_complete(self) -> bool:
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                go.wait(30)
            return False

    def interrupt(_number: int, _frame: object) -> None:
        raise InterruptedError

    operation = Held(1000)
    holder = threading.Thread(target=operation.safe_try_complete)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        holder.start()
        inside.wait(30)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError):
            operation.safe_try_complete()
    finally:
        signal.signal(signal.SIGALRM, before)
    go.set()
    holder.join(30)
    assert operation.force_complete() is True
    race(operation.safe_try_complete, operation.force_complete)


@pytest.mark.parametrize("seed", range(3))
def test_no_time_runs_out_after_a_purgatory_on_a_foreign_timer_was_closed(build: Build, seed: int) -> None:
    for _ in range(10):
        clock = ManualClock()
        with build.SystemTimer("shared", clock=clock, executor=InlineExecutor()) as timer:
            purgatory = build.Purgatory("race", timer=timer, reaper=False)
            watched: list[Any] = []

            def watch(purgatory: Any = purgatory, watched: list[Any] = watched) -> None:
                for number in range(30):
                    operation = counted_class(build)(1000)
                    with suppress(Closed):
                        purgatory.try_complete_else_watch(operation, [number % (seed + 1), "all"])
                    watched.append(operation)

            race(watch, watch, partial(purgatory.close, "leave"))
            clock.advance(10_000)
            timer.advance_clock(0)
            assert (timer.size, sum(operation.completions for operation in watched)) == (0, 0)


def test_an_operation_that_is_awaited_while_it_completes_never_keeps_its_waiter(build: Build) -> None:
    async def main() -> None:
        with build.Purgatory("race", reaper=False) as purgatory:
            for number in range(200):
                operation = counted_class(build)(60_000)
                complete = operation.run if number % 2 else operation.force_complete
                thread = threading.Thread(target=complete)
                thread.start()
                outcome = await asyncio.wait_for(purgatory.wait(operation, ["k"]), 30)
                assert outcome is (number % 2 == 0)
                assert (operation.completions, operation.expirations) == (1, number % 2)
                thread.join(30)

    asyncio.run(main())
