"""One settlement for all timeouts says what one replay for each says."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import pytest

from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger import replay
from dwell.spark import curve, shortest_delay
from tests.spark import frames
from tests.spark.histories import histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELAYS = [40, 0, 5, 12]
SHARES = [0.05, 0.25, 0.4, 0.99]


def test_curve_equals_one_replay_for_each_delay(spark: SparkSession) -> None:
    waits, events = histories(range(3000, 3100))
    operations, happened = frames.operations(spark, waits), frames.events(spark, events)
    rows = curve(operations, happened, DELAYS).collect()
    assert [row.delay_ms for row in rows] == sorted(DELAYS)
    longest = max(DELAYS)
    settled = [o for o in replay([w._replace(delay_ms=longest) for w in waits], events) if o.outcome != "rejected"]
    possible = {outcome.op_id for outcome in settled}
    for row in rows:
        again = replay([wait._replace(delay_ms=row.delay_ms) for wait in waits], events)
        kept = [outcome for outcome in again if outcome.outcome != "rejected" and outcome.op_id in possible]
        waited = sorted(outcome.waited_ms or 0 for outcome in kept)
        assert row.operations == len(kept)
        assert row.completed == sum(outcome.outcome == "completed" for outcome in kept)
        assert row.expired == row.operations - row.completed
        assert row.expired_share == row.expired / row.operations
        found = {0.5: row.p50_ms, 0.9: row.p90_ms, 0.99: row.p99_ms}
        assert found == {share: waited[ceil(share * len(waited)) - 1] for share in found}

    completed = sorted(o.waited_ms or 0 for o in settled if o.outcome == "completed")
    for row in shortest_delay(operations, happened, SHARES, up_to_ms=longest).collect():
        nth = ceil(row.keep * len(settled))
        assert row.delay_ms == (completed[nth - 1] if nth <= len(completed) else None)


def test_nothing_to_look_at(spark: SparkSession) -> None:
    operations, events = frames.operations(spark, []), frames.events(spark, [])
    (row,) = curve(operations, events, [5]).collect()
    assert tuple(row) == (5, 0, 0, 0, None, None, None, None)


def test_misuse_is_said_before_any_job(spark: SparkSession) -> None:
    operations, events = frames.operations(spark, []), frames.events(spark, [])
    with pytest.raises(InvalidArgument, match="at least one delay"):
        curve(operations, events, [])
    with pytest.raises(InvalidArgument, match="must be 64-bit integers: 9223372036854775808"):
        curve(operations, events, [1, 2**63])
    with pytest.raises(InvalidArgument, match="must not be negative: -1"):
        curve(operations, events, [5, -1])
    with pytest.raises(InvalidType, match=r"whole milliseconds, not \[1\.5\]"):
        curve(operations, events, [1.5])  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match=r"not 1\.5"):
        shortest_delay(operations, events, [1.5], up_to_ms=10)
