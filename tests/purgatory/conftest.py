"""Fixtures of the purgatory. With `build` or one of these, a test runs on both builds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dwell.purgatory import Purgatory
from dwell.testing import ManualClock
from tests.builds import Build


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def errors() -> list[tuple[BaseException, object]]:
    """What reached the purgatory's handler."""
    return []


@pytest.fixture
def purgatory(build: Build, clock: ManualClock, errors: list[tuple[BaseException, object]]) -> Iterator[Purgatory]:
    """Driven by hand: `clock.advance(20); purgatory.advance()`. Must be consistent when the test is over."""
    with build.Purgatory("test", clock=clock, reaper=False, on_error=lambda *args: errors.append(args)) as purgatory:
        yield purgatory
        purgatory._check()
