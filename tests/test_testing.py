"""What users' tests get."""

from __future__ import annotations

import pytest

from dwell.clock import SystemClock
from dwell.errors import InvalidArgument
from dwell.testing import InlineExecutor, ManualClock
from dwell.timer import SystemTimer

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


def test_the_fixtures_move_time_without_sleeping(manual_clock: ManualClock, manual_timer: SystemTimer) -> None:
    gave_up: list[bool] = []
    manual_timer.schedule(30_000, lambda: gave_up.append(True))
    manual_clock.advance(30_000)
    manual_timer.advance_clock(0)
    assert gave_up == [True]


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
