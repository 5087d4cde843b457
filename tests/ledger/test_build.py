"""The sources and the compiled modules give the same outcomes."""

from __future__ import annotations

import hashlib
import inspect
import os
import random
import subprocess
import sys
from types import ModuleType

import pytest

from dwell.ledger import Ledger, replay
from tests.ledger.conftest import BUILDS
from tests.ledger.history import moments, random_history


def digest(histories: int) -> str:
    hasher = hashlib.sha256()
    for seed in range(histories):
        rng = random.Random(seed)
        waits, events = random_history(rng)
        for as_of_ms in (None, moments(rng, waits, events)):
            hasher.update(repr(list(replay(waits, events, as_of_ms=as_of_ms))).encode())
    return hasher.hexdigest()


def test_the_tests_run_on_the_build_they_name(build: dict[str, ModuleType], request: pytest.FixtureRequest) -> None:
    is_readable = request.node.callspec.params["build"] == "readable"
    assert {str(module.__file__).endswith(".py") for module in build.values()} == {is_readable}
    assert inspect.isfunction(replay) == is_readable
    assert inspect.isfunction(Ledger.record) == is_readable


def test_both_builds_give_the_same_outcomes_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for modules in BUILDS.values():
        monkeypatch.setitem(globals(), "replay", modules["replay"].replay)
        digests.add(digest(500))
    assert len(digests) == 1


def test_the_environment_chooses_the_build() -> None:
    environment = os.environ | {"DWELL_REFERENCE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    code = "from dwell import ledger; print(ledger.BUILD, type(ledger.replay).__name__)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["readable", "function"]
