"""The session, with the settings streams need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
