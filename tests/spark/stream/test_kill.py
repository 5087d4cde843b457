"""Killed at any point, a settlement goes on from its checkpoint: nothing lost, nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import replay
from tests.spark.stream.feed import outcomes
from tests.spark.stream.test_stream import write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FILES = 6


class Job:
    """One life of the program in `job.py`."""

    def __init__(self, root: Path, sink: str) -> None:
        self._root = root
        with (root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.stream.job", str(root), sink],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for_commits(self, count: int) -> bool:
        """True once so many more micro-batches are committed, False if the job ended before."""
        commits = self._root / "checkpoint" / "commits"
        wanted = self._committed(commits) + count
        while self.process.poll() is None:
            if self._committed(commits) >= wanted:
                return True
            time.sleep(0.02)
        return False

    def kill(self, *, workers_only: bool) -> None:
        if workers_only:
            for pid in _descendants(self.process.pid, "pyspark.daemon"):
                os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @staticmethod
    def _committed(commits: Path) -> int:
        return sum(path.name.isdigit() for path in commits.iterdir()) if commits.exists() else 0


def _descendants(pid: int, command: str) -> list[int]:
    """Processes below this one whose command line has the words."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_text()
            except OSError:
                continue
    found, level = set[int](), {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found |= level
    return [child for child in found if command in lines.get(child, "")]


def kill_loop(spark: SparkSession, root: Path, *, sink: str, kills: int, seed: int) -> None:
    rng = Random(seed)
    waits, events = write_history(root, seed, FILES)
    for _ in range(kills):
        job = Job(root, sink)
        if not job.wait_for_commits(rng.randint(0, 2)):
            break
        time.sleep(rng.random() * 2)
        job.kill(workers_only=rng.random() < 0.3)
    job = Job(root, sink)
    assert job.process.wait() == 0, (root / "log").read_text()[-4000:]
    said = spark.read.parquet(str(root / "outcomes"))
    assert Counter(outcomes(said)) == Counter(replay(waits, events))


@pytest.mark.parametrize(("sink", "kills"), [("parquet", 2), ("batches", 1)])
def test_a_handful_of_kills_changes_nothing(streams: SparkSession, tmp_path: Path, sink: str, kills: int) -> None:
    kill_loop(streams, tmp_path, sink=sink, kills=kills, seed=kills)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("sink", ["parquet", "batches"])
def test_two_hundred_kills_change_nothing(streams: SparkSession, tmp_path: Path, sink: str) -> None:
    for seed in range(25):
        kill_loop(streams, tmp_path / str(seed), sink=sink, kills=4, seed=seed)
