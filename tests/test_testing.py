"""What users' tests get."""

from __future__ import annotations

import pytest

from dwell.clock import SystemClock
from dwell.errors import InvalidArgument
from dwell.testing import InlineExecutor, ManualClock, ManualTimer
from tests.builds import Build

pytest_plugins = ["pytester"]


def test_the_manual_clock_moves_only_when_told_and_only_forward() -> None:
    clock = ManualClock(5)
    clock.advance(10)
    assert clock.now_ms() == 15
    assert repr(clock) == "<ManualClock 15 ms>"
    with pytest.raises(InvalidArgument, match="-1"):
        clock.advance(-1)


def test_the_system_clock_never_runs_backwards() -> None:
    readings = [SystemClock().now_ms() for _ in range(100)]
    assert readings == sorted(readings)


def test_the_inline_executor_is_an_executor() -> None:
    executor = InlineExecutor()
    assert executor.submit(divmod, 7, 2).result() == (3, 1)
    assert isinstance(executor.submit(divmod, 7, 0).exception(), ZeroDivisionError)


def test_one_call_moves_the_clock_and_turns_the_timer(build: Build) -> None:
    timer = build.ManualTimer()
    log: list[tuple[int, str]] = []

    def note(name: str) -> None:
        log.append((timer.clock.now_ms(), name))

    def first() -> None:
        note("first")
        timer.schedule(5, lambda: note("added by first"))

    timer.schedule(30, first)
    timer.schedule(500, lambda: note("second"))
    timer.add(build.RecurringTask(200, lambda: note("again")))
    timer.advance(499)
    assert log == [(30, "first"), (35, "added by first"), (200, "again"), (400, "again")]
    assert timer.clock.now_ms() == 499
    timer.advance(1)
    assert log[-1] == (500, "second")
    with pytest.raises(InvalidArgument, match="ms must be at least 0, not -1"):
        timer.advance(-1)


def test_what_tasks_raise_comes_out_of_advance(build: Build) -> None:
    timer = build.ManualTimer()
    ran: list[int] = []
    timer.schedule(5, lambda: 1 // 0)
    timer.schedule(5, lambda: ran.append(1))
    with pytest.raises(ZeroDivisionError):
        timer.advance(5)
    assert ran == [1]
    timer.schedule(5, lambda: 1 // 0)
    timer.schedule(6, lambda: [][0])
    with pytest.raises(BaseExceptionGroup) as raised:
        timer.advance(10)
    assert [type(error) for error in raised.value.exceptions] == [ZeroDivisionError, IndexError]
    timer.advance(10)


def test_the_fixtures_move_time_without_sleeping(manual_clock: ManualClock, manual_timer: ManualTimer) -> None:
    gave_up: list[bool] = []
    manual_timer.schedule(30_000, lambda: gave_up.append(True))
    manual_timer.advance(30_000)
    assert gave_up == [True]
    assert manual_clock.now_ms() == 30_000


def test_a_task_of_the_fixture_that_raises_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(manual_timer):
            manual_timer.schedule(0, lambda: 1 // 0)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ZeroDivisionError*"])
