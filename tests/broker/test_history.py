"""Random histories: what was acknowledged or read is never lost, and nothing waits without a reason."""

from __future__ import annotations

import pytest

from tests.broker.history import History

STEPS = 60


def run(seeds: range) -> None:
    for seed in seeds:
        history = History(seed)
        try:
            history.run(STEPS)
        except BaseException as error:
            error.add_note(f"History({seed}) after {len(history.steps)} steps, the last: {history.steps[-5:]}")
            raise


def test_a_hundred_histories() -> None:
    run(range(100))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("thousand", range(100))
def test_a_hundred_thousand_histories(thousand: int) -> None:
    run(range(1_000 * thousand, 1_000 * (thousand + 1)))
