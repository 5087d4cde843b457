"""Fixtures for the whole suite. Every test of the timer runs on both builds."""

from __future__ import annotations

import os
from types import ModuleType

import pytest

from dwell.timer import compiled, reference
from tests.skipped import pytest_sessionfinish  # noqa: F401  (a hook)

# Whatever Spark opens, here and in the programs that tests start, it opens on loopback.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(params=[reference, compiled], ids=["reference", "compiled"])
def build(request: pytest.FixtureRequest) -> ModuleType:
    """One of the two builds of the timer: a module with SystemTimer, TimerTask and RecurringTask."""
    module: ModuleType = request.param
    return module
