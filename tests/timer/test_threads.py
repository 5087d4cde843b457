"""Threads that really race, on both builds: whatever happens, each timer fires or is cancelled, once."""

from __future__ import annotations

import random
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dwell.errors import Closed
from dwell.testing import InlineExecutor, ManualClock
from tests.builds import Build


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Let the interpreter change threads every ten microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def race(*bodies: Callable[[], None]) -> None:
    """Run the bodies at the same time, from a common start; an exception in any of them fails the test."""
    barrier = threading.Barrier(len(bodies))
    errors: list[BaseException] = []

    def run(body: Callable[[], None]) -> None:
        barrier.wait()
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads), "threads that wait for each other"


@pytest.mark.parametrize("seed", range(8))
def test_adds_cancels_and_advances_race_and_every_task_has_one_fate(build: Build, seed: int) -> None:
    timer = build.SystemTimer(executor=InlineExecutor(), wheel_size=random.Random(seed).choice([2, 3, 20]))
    fired: list[int] = []
    cancelled: list[int] = []
    adders_left = [3]

    def adder(base: int) -> Callable[[], None]:
        def body() -> None:
            rng = random.Random(seed * 100 + base)
            mine: list[tuple[int, Any]] = []
            for name in range(base, base + 400):
                task = build.TimerTask(rng.choice([0, 1, 3, 25, 60]), lambda name=name: fired.append(name))
                timer.add(task)
                mine.append((name, task))
                if rng.random() < 0.5:
                    victim, task = mine.pop(rng.randrange(len(mine)))
                    if task.cancel():
                        cancelled.append(victim)
            adders_left[0] -= 1

        return body

    def reaper() -> None:
        while adders_left[0] or timer.size:
            timer.advance_clock(5)

    race(adder(0), adder(1000), adder(2000), reaper, reaper)
    timer._check()
    names = [base + i for base in (0, 1000, 2000) for i in range(400)]
    assert sorted(fired + cancelled) == names
    statistics = timer.statistics()
    assert (statistics.fired, statistics.cancelled, statistics.pending) == (len(fired), len(cancelled), 0)


@pytest.mark.parametrize("seed", range(8))
def test_many_threads_cancel_the_same_tasks_and_each_is_cancelled_once(build: Build, seed: int) -> None:
    timer = build.SystemTimer(executor=InlineExecutor())
    fired: list[int] = []
    rng = random.Random(seed)
    tasks = [build.TimerTask(rng.randrange(1, 40), lambda name=name: fired.append(name)) for name in range(500)]
    wins = [0, 0, 0]

    def canceller(who: int) -> Callable[[], None]:
        def body() -> None:
            order = list(tasks)
            random.Random(seed + who).shuffle(order)
            for task in order:
                wins[who] += task.cancel()

        return body

    for task in tasks:
        timer.add(task)

    def reaper() -> None:
        while timer.size:
            timer.advance_clock(1)

    race(canceller(0), canceller(1), canceller(2), reaper)
    timer._check()
    assert len(fired) + sum(wins) == 500
    assert len(set(fired)) == len(fired)


def test_the_same_task_added_by_many_threads_waits_once(build: Build) -> None:
    timer = build.SystemTimer(executor=InlineExecutor())
    task = build.TimerTask(60_000, int)

    def add() -> None:
        for _ in range(300):
            timer.add(task)

    race(add, add, add)
    timer._check()
    assert timer.size == 1


def test_two_threads_build_the_same_levels(build: Build) -> None:
    for seed in range(20):
        timer = build.SystemTimer(executor=InlineExecutor(), wheel_size=2)
        delays = [2**power for power in range(50)]

        def add(timer: Any = timer, delays: list[int] = delays) -> None:
            for delay_ms in delays:
                timer.schedule(delay_ms, int)

        race(add, add)
        timer._check()
        assert timer.size + timer.statistics().fired == 100, seed


def test_tasks_add_and_cancel_from_inside_while_others_do_from_outside(build: Build) -> None:
    timer = build.SystemTimer(executor=InlineExecutor())
    runs: list[int] = []
    victims = [timer.schedule(3_600_000, int) for _ in range(300)]

    def chain(left: int) -> None:
        runs.append(left)
        if victims:
            victims.pop().cancel()
        if left:
            timer.schedule(1, lambda: chain(left - 1))

    def outside() -> None:
        for _ in range(10):
            timer.schedule(1, lambda: chain(9))

    def reaper() -> None:
        while len(runs) < 300:
            timer.advance_clock(5)

    race(outside, outside, outside, reaper)
    timer._check()
    assert len(runs) == 300
    assert timer.size == 0


def test_close_races_with_adds_and_nothing_runs_afterwards(build: Build) -> None:
    for _ in range(20):
        timer = build.SystemTimer(executor=InlineExecutor())
        refused: list[int] = []

        def add(timer: Any = timer, refused: list[int] = refused) -> None:
            for _ in range(200):
                try:
                    timer.schedule(5, int)
                except Closed:
                    refused.append(1)

        race(add, add, timer.close)
        timer._check()
        assert timer.size == 0


def test_a_recurring_task_starts_again_while_another_thread_waits(build: Build) -> None:
    clock = ManualClock()
    timer = build.SystemTimer(clock=clock, executor=InlineExecutor())
    runs: list[int] = []
    timer.add(build.RecurringTask(1, lambda: runs.append(1)))

    def turner() -> None:
        while len(runs) < 3000:
            clock.advance(1)
            timer.advance_clock(0)
        timer._check()
        timer.close()  # the waiters would wait for a clock that stands still

    def waiter() -> None:
        while len(runs) < 3000:
            timer.advance_clock(1)

    race(turner, waiter, waiter)


def test_cancel_many_races_an_advance_and_every_timer_has_one_fate(build: Build) -> None:
    for seed in range(5):
        clock = ManualClock()
        timer = build.SystemTimer(clock=clock, executor=InlineExecutor())
        handles = timer.add_many(array("q", [1 + i // 20 for i in range(2000)]))
        expired: list[int] = []
        cancelled: list[int] = []

        def reaper(clock: ManualClock = clock, timer: Any = timer, expired: list[int] = expired) -> None:
            while timer.size:
                clock.advance(1)
                expired.extend(timer.advance_many(0))

        def canceller(
            timer: Any = timer, handles: Any = handles, cancelled: list[int] = cancelled, seed: int = seed
        ) -> None:
            order = list(handles)
            random.Random(seed).shuffle(order)
            for place in range(0, len(order), 10):
                cancelled.append(timer.cancel_many(array("q", order[place : place + 10])))

        race(reaper, canceller, canceller)
        timer._check()
        expired.extend(timer.advance_many(0))
        assert timer.size == 0
        assert len(expired) + sum(cancelled) == 2000
        assert len(set(expired)) == len(expired)


def test_threads_that_add_many_get_handles_of_their_own(build: Build) -> None:
    timer = build.SystemTimer(executor=InlineExecutor())
    handles: list[int] = []

    def add() -> None:
        for _ in range(300):
            handles.extend(timer.add_many(array("q", [60_000] * 3)))

    race(add, add, add)
    timer._check()
    assert len(set(handles)) == len(handles) == timer.size == 2700


def test_threads_that_move_one_task_between_two_timers_leave_it_in_one(build: Build) -> None:
    timers = [build.SystemTimer(executor=InlineExecutor()) for _ in range(2)]
    for _ in range(20):
        task = build.TimerTask(60_000, int)

        def move(timer: Any, task: Any = task) -> Callable[[], None]:
            def body() -> None:
                for _ in range(50):
                    timer.add(task)

            return body

        race(move(timers[0]), move(timers[1]), move(timers[1]))
        for timer in timers:
            timer._check()
        assert sum(timer.size for timer in timers) == 1
        assert task.cancel()
        assert sum(timer.size for timer in timers) == 0


def test_a_task_that_is_due_as_it_is_added_runs_though_the_timer_closes(build: Build) -> None:
    class ClosedMeanwhile(build.SystemTimer):  # type: ignore[misc,name-defined]
        """Is closed by another thread after a task was accepted and before it is handed over."""

        def _hand_over(self) -> None:
            if not self._closed:
                race(self.close)
            super()._hand_over()

    ran = threading.Event()
    timer = ClosedMeanwhile()
    timer.schedule(0, ran.set)
    assert ran.wait(10)


def test_close_races_with_tasks_that_are_due_as_they_are_added(build: Build) -> None:
    for seed in range(30):
        timer = build.SystemTimer()
        ran: list[int] = []
        added: list[int] = []

        def add(timer: Any = timer, ran: list[int] = ran, added: list[int] = added) -> None:
            for name in range(200):
                try:
                    timer.schedule(0, lambda name=name: ran.append(name))
                except Closed:
                    return
                added.append(name)

        def close(timer: Any = timer, seed: int = seed) -> None:
            for _ in range(seed * 20):
                pass
            timer.close()

        race(add, close)
        timer.close()
        assert sorted(ran) == added
