"""Random histories: the table engine says what `replay` says, row for row."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from dwell.ledger import Event, Need, Wait, replay
from tests.ledger.history import moments, random_history
from tests.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def histories(seeds: range, size: int = 8) -> tuple[list[Wait], list[Event]]:
    """Many histories in one, kept apart by a prefix of all op_ids and keys."""
    waits: list[Wait] = []
    events: list[Event] = []
    for seed in seeds:
        some_waits, some_events = random_history(Random(seed), size=size)
        waits += [_wait(f"{seed}:", wait) for wait in some_waits]
        events += [e._replace(key=None if e.key is None else f"{seed}:{e.key}") for e in some_events]
    return waits, events


def _wait(prefix: str, wait: Wait) -> Wait:
    needs = None if wait.needs is None else [_need(prefix, need) for need in wait.needs]
    return wait._replace(op_id=wait.op_id and prefix + wait.op_id, needs=needs)


def _need(prefix: str, need: Need) -> Need:
    return need if need is None or need.key is None else need._replace(key=prefix + need.key)


def check(
    spark: SparkSession, seeds: range, partitions: int, as_of_ms: int | None = None, size: int = 8
) -> None:
    from dwell.spark.schema import plain_events, plain_operations
    from dwell.spark.settle import settle_plain

    waits, events = histories(seeds, size)
    operations = frames.operations(spark, waits).repartition(partitions)
    happened = frames.events(spark, events).repartition(partitions)
    found = frames.outcomes(
        settle_plain(plain_operations(operations), plain_events(happened), as_of_ms=as_of_ms)
    )
    expected = sorted((tuple(o) for o in replay(waits, events, as_of_ms=as_of_ms)), key=repr)
    assert len(found) == len(expected)
    assert found == expected


@pytest.mark.parametrize("partitions", [1, 7])
def test_200_histories_equal_replay(spark: SparkSession, partitions: int) -> None:
    check(spark, range(200), partitions)


@pytest.mark.parametrize("as_of_ms", [3, 12, 1_700_000_000_007])
def test_as_of_equals_replay(spark: SparkSession, as_of_ms: int) -> None:
    check(spark, range(200, 300), 3, as_of_ms)


def test_long_histories_equal_replay(spark: SparkSession) -> None:
    check(spark, range(300, 310), 3, size=200)
