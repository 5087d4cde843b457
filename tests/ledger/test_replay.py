from __future__ import annotations

import random

import pytest

from dwell.ledger import replay
from tests.ledger import model
from tests.ledger.history import moments, random_history


def check_history(seed: int) -> None:
    rng = random.Random(seed)
    waits, events = random_history(rng)
    as_of_ms = moments(rng, waits, events) if rng.random() < 0.5 else None
    run = replay(waits, events, as_of_ms=as_of_ms)
    assert sorted(map(tuple, run), key=repr) == model.outcomes(waits, events, as_of_ms)
    counts = run.statistics()
    assert counts.opened == counts.completed + counts.expired + counts.rejected + counts.pending


@pytest.mark.parametrize("block", range(10))
def test_random_histories_agree_with_the_model(block: int) -> None:
    for seed in range(block * 1000, block * 1000 + 1000):
        check_history(seed)
