"""The session, with the settings streams need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dwell.spark.stream import journal
from dwell.spark.stream.plan import PROVIDER, ROCKSDB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def streams(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set(PROVIDER, ROCKSDB)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


@pytest.fixture(params=["as ever", "always", "after a few rows"])
def folding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes at which logs are folded, and parts and slices are cut: as they are, or such that a small history
    comes to all of them."""
    sizes = {"always": (-1, 1, 1, 1), "after a few rows": (3, 2, 2, 2)}.get(request.param)
    for name, size in zip(("SHORT_LOG", "PART_ROWS", "SLICE_ROWS", "LOG_ENTRIES"), sizes or (), strict=False):
        monkeypatch.setattr(journal, name, size)
