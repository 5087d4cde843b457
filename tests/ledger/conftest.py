"""Every test in this folder runs on both builds of the ledger.

A test module imports the names it tests as usual. For each test they are replaced by those of one build.
"""

from __future__ import annotations

import pytest

from tests.builds import Build

# What the two builds have each of their own.
NAMES = ("Engine", "Ledger", "Replay", "Ticket", "replay")


@pytest.fixture(autouse=True)
def _names_of_the_build(build: Build, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        if hasattr(request.module, name):
            monkeypatch.setattr(request.module, name, getattr(build.modules["dwell.ledger"], name))


@pytest.fixture
def live_module(build: Build) -> str:
    """The module that the build's `Ledger` is defined in."""
    return str(build.modules["dwell.ledger"].Ledger.__module__)
