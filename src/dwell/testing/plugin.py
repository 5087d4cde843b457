"""A pytest plugin, active wherever dwell is installed: fixtures for tests that move time instead of sleeping.

def test_it_gives_up(manual_timer):
    gave_up = []
    manual_timer.schedule(30_000, lambda: gave_up.append(True))
    manual_timer.advance(30_000)
    assert gave_up

It imports nothing of dwell until a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dwell.clock import ManualClock
    from dwell.testing import ManualTimer


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock at 0 ms that only the test moves."""
    from dwell.clock import ManualClock

    return ManualClock()


@pytest.fixture
def manual_timer(manual_clock: ManualClock) -> Iterator[ManualTimer]:
    """A timer on `manual_clock`: `advance(ms)` moves both and runs what comes due. Tasks that raise fail the test."""
    from dwell.testing import ManualTimer

    with ManualTimer(clock=manual_clock) as timer:
        yield timer
    timer.raise_errors()
