"""On executors of their own, which get the library with the job."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import replay
from tests.spark.stream.feed import outcomes
from tests.spark.stream.long_history import write_history
from tests.spark.stream.victim import EXECUTORS, Victim

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_two_executors_settle_with_the_library_shipped_as_a_zip_and_one_of_them_killed(
    streams: SparkSession, tmp_path: Path
) -> None:
    waits, events = write_history(tmp_path, 3, 2)
    job = Victim(tmp_path, "cluster_job")
    assert job.wait_for_steps(3)
    assert job.kill_some(EXECUTORS, most=1) == 1
    job.wait_for_end()
    found = re.findall(r"executor has .*dwell\.zip/dwell/__init__\.py in (\d+)", job.log.read_text())
    assert len(set(found)) == 2
    said = streams.read.parquet(str(tmp_path / "parquet" / "outcomes"))
    assert Counter(outcomes(said)) == Counter(replay(waits, events))
