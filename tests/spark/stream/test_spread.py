"""The shards have an even share of the partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as F

from dwell.spark.stream.spread import shard_names, spark_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 24, 32, 64])
def test_shards_spread_evenly(partitions: int) -> None:
    names = np.array(shard_names(4096), np.int32)
    assert len(set(names.tolist())) == 4096
    for shards in (1, partitions, 2 * partitions, 4096):
        share = np.bincount(spark_hash(names[:shards]) % partitions, minlength=partitions)
        assert share.max() - share.min() <= 1


def test_names_do_not_depend_on_how_many_there_are() -> None:
    assert shard_names(4096)[:16] == shard_names(16)
    assert shard_names(3) == (0, 39170, 100805)


@pytest.mark.spark
def test_the_hash_is_that_of_spark(streams: SparkSession) -> None:
    numbers = [-(2**31), -1, 0, 1, 7, 2**31 - 1]
    rows = streams.createDataFrame([(number,) for number in numbers], "n int").select("n", F.hash("n").alias("hash"))
    said = spark_hash(np.array(numbers, np.int32)).tolist()
    assert {row.n: row.hash for row in rows.collect()} == dict(zip(numbers, said, strict=True))
