"""Every test here runs over both builds of the purgatory: take `build` (or a fixture made from it) as an argument."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from dwell.purgatory.reference import Purgatory
from dwell.testing import ManualClock


def _builds() -> list[str]:
    try:
        import_module("dwell.purgatory.compiled")
    except ImportError:
        return ["reference"]
    return ["reference", "compiled"]


BUILDS = _builds()


@pytest.fixture(params=BUILDS)
def build(request: pytest.FixtureRequest) -> ModuleType:
    return import_module(f"dwell.purgatory.{request.param}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def errors() -> list[tuple[BaseException, object]]:
    """What reached the purgatory's handler."""
    return []


@pytest.fixture
def purgatory(build: ModuleType, clock: ManualClock, errors: list[tuple[BaseException, object]]) -> Iterator[Purgatory]:
    """Driven by hand: `clock.advance(20); purgatory.advance()`. Must be consistent when the test is over."""
    with build.Purgatory("test", clock=clock, reaper=False, on_error=lambda *args: errors.append(args)) as purgatory:
        yield purgatory
        purgatory._check()
