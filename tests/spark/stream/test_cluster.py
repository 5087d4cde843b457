"""On executors of their own, which get the library with the job."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import replay
from tests.spark.stream.feed import outcomes
from tests.spark.stream.test_stream import write_history

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_two_executors_settle_with_the_library_shipped_as_a_zip(streams: SparkSession, tmp_path: Path) -> None:
    waits, events = write_history(tmp_path, 3, 2)
    job = subprocess.run(
        [sys.executable, "-m", "tests.spark.stream.cluster_job", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-4000:]
    assert len(set(re.findall(r"executor has .*dwell\.zip/dwell/__init__\.py in (\d+)", job.stdout))) == 2
    said = streams.read.parquet(str(tmp_path / "outcomes"))
    assert Counter(outcomes(said)) == Counter(replay(waits, events))
