"""The sources and the compiled modules give the same outcomes."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dwell.ledger import replay
from dwell.ledger.build import BUILD, COMPILED
from tests.ledger.history import moments, random_history


def digest(histories: int) -> str:
    hasher = hashlib.sha256()
    for seed in range(histories):
        rng = random.Random(seed)
        waits, events = random_history(rng)
        for as_of_ms in (None, moments(rng, waits, events)):
            hasher.update(repr(list(replay(waits, events, as_of_ms=as_of_ms))).encode())
    return hasher.hexdigest()


@pytest.mark.parametrize("reference", ["0", "1"])
def test_both_builds_give_the_same_outcomes(reference: str) -> None:
    code = "from tests.ledger.test_build import *; print(BUILD, digest(500))"
    environment = os.environ | {"DWELL_REFERENCE": reference, "PYTHONPATH": os.pathsep.join(sys.path)}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    build, answer = done.stdout.split()
    assert build == ("readable" if reference == "1" else "compiled")
    assert answer == digest(500)


def test_the_modules_come_from_the_build_that_is_named() -> None:
    files = [sys.modules[f"dwell.ledger.{name}"].__file__ or "" for name in COMPILED]
    assert [file.endswith(".py") for file in files] == [BUILD == "readable"] * len(COMPILED)
