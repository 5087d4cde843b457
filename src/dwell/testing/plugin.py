"""A pytest plugin, active wherever dwell is installed: fixtures for tests that move time instead of sleeping.

It imports nothing of dwell until a fixture is used.

def test_it_gives_up(manual_clock, manual_timer):
    gave_up = []
    manual_timer.schedule(30_000, lambda: gave_up.append(True))
    manual_clock.advance(30_000)
    manual_timer.advance_clock(0)
    assert gave_up
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dwell.clock import ManualClock
    from dwell.timer import SystemTimer


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock at 0 ms that only the test moves."""
    from dwell.clock import ManualClock

    return ManualClock()


@pytest.fixture
def manual_timer(manual_clock: ManualClock) -> Iterator[SystemTimer]:
    """A timer on `manual_clock` that runs due tasks inside `advance_clock`. A task that raises fails the test."""
    from dwell.timer import InlineExecutor, SystemTimer

    errors: list[BaseException] = []
    with SystemTimer(
        clock=manual_clock, executor=InlineExecutor(), on_error=lambda error, _task: errors.append(error)
    ) as timer:
        yield timer
    if errors:
        raise BaseExceptionGroup("tasks of manual_timer raised", errors)
