"""Random histories: the table engine says what `replay` says, row for row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dwell.ledger import replay
from dwell.spark.schema import plain_events, plain_operations
from dwell.spark.settle import settle_plain
from tests.spark import frames
from tests.spark.histories import histories

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def check(
    spark: SparkSession,
    seeds: Iterable[int],
    *,
    partitions: int = 3,
    as_of_ms: int | None = None,
    size: int = 8,
    once: bool = False,
) -> None:
    waits, events = histories(seeds, size)
    if once:
        waits = list({wait.op_id: wait for wait in waits}.values())
    operations = plain_operations(frames.operations(spark, waits).repartition(partitions))
    happened = plain_events(frames.events(spark, events).repartition(partitions))
    found = frames.outcomes(settle_plain(operations, happened, as_of_ms=as_of_ms))
    expected = sorted(map(tuple, replay(waits, events, as_of_ms=as_of_ms)), key=repr)
    assert found == expected


# Each job costs seconds whatever its size, so one partition and many, `as_of` and none share the jobs.
@pytest.mark.parametrize(("partitions", "as_of_ms"), [(1, None), (7, 8), (3, 1_700_000_000_007)])
def test_histories_equal_replay(spark: SparkSession, partitions: int, as_of_ms: int | None) -> None:
    check(spark, range(250), partitions=partitions, as_of_ms=as_of_ms)


@pytest.mark.parametrize(("partitions", "as_of_ms"), [(7, None), (1, 1_700_000_000_007)])
def test_histories_without_repeats_equal_replay(spark: SparkSession, partitions: int, as_of_ms: int | None) -> None:
    """Single needs are then settled where their key is."""
    check(spark, range(1000, 1250), partitions=partitions, as_of_ms=as_of_ms, once=True)


def test_long_histories_equal_replay(spark: SparkSession) -> None:
    check(spark, range(2000, 2010), size=300)


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "once"), [(1, False), (16, False), (16, True)])
def test_1000_histories_equal_replay(spark: SparkSession, partitions: int, once: bool) -> None:
    check(spark, range(10_000, 11_000), partitions=partitions, size=30, once=once)
