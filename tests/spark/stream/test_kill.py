"""Killed at any point, a settlement goes on from its checkpoint: nothing lost, nothing twice."""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import replay
from tests.spark.stream.feed import outcomes
from tests.spark.stream.job import SINKS
from tests.spark.stream.long_history import write_history
from tests.spark.stream.victim import WORKERS, Victim

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def kill_loop(spark: SparkSession, root: Path, *, kills: int, files: int, seed: int) -> int:
    """Kills the job so often while it settles a history, lets it end, and looks at what it said; returns the kills.

    Half of the kills are of the Python workers only. Each comes up to a second after some step of some micro-batch.
    """
    rng = Random(seed)
    waits, events = write_history(root, seed, files)
    job, done = Victim(root, "job"), 0
    while done < kills and job.wait_for_steps(rng.randint(1, 12)):
        time.sleep(rng.random())
        if rng.random() < 0.5:
            done += job.kill_some(WORKERS) > 0
        elif job.is_running():
            job.kill()
            job, done = Victim(root, "job"), done + 1
    job.wait_for_end()
    expected = Counter(replay(waits, events))
    for sink in SINKS:
        assert Counter(outcomes(spark.read.parquet(str(root / sink / "outcomes")))) == expected, f"seed {seed}, {sink}"
    return done


def test_a_handful_of_kills_changes_nothing(streams: SparkSession, tmp_path: Path) -> None:
    assert kill_loop(streams, tmp_path, kills=2, files=3, seed=1) == 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_kills_change_nothing(streams: SparkSession, tmp_path: Path, seed: int) -> None:
    assert kill_loop(streams, tmp_path, kills=20, files=20, seed=seed) == 20
