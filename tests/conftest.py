"""Fixtures for the whole suite. Every test of the timer runs on both builds."""

from __future__ import annotations

from types import ModuleType

import pytest

from dwell.timer import compiled, reference


@pytest.fixture(params=[reference, compiled], ids=["reference", "compiled"])
def build(request: pytest.FixtureRequest) -> ModuleType:
    """One of the two builds of the timer: a module with SystemTimer, TimerTask and RecurringTask."""
    module: ModuleType = request.param
    return module
