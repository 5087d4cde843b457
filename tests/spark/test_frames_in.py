"""What a caller may hand in, and what comes back: names, types, time zones, extra columns, small frames, the plan."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from dwell.errors import InvalidArgument, InvalidType
from dwell.ledger import Event, Need, Wait
from dwell.spark import OUTCOMES, SettleOptions, identity, set_aside, settle
from tests.spark import frames
from tests.spark.histories import histories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def operations(spark: SparkSession) -> DataFrame:
    return frames.operations(spark, [Wait("op", [Need("k", 3)], 10, 100)])


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    return frames.events(spark, [Event("k", 104, 3)])


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Session settings nobody should notice; put back afterwards."""
    odd = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        # Of effect with ANSI only.
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    }
    usual = {name: spark.conf.get(name) or "" for name in odd}
    for name, value in odd.items():
        spark.conf.set(name, value)
    yield odd
    for name, value in usual.items():
        spark.conf.set(name, value)


def test_missing_and_mistyped_columns_are_named(operations: DataFrame, events: DataFrame) -> None:
    with pytest.raises(
        InvalidArgument, match="operations needs a column 'needs' of type array<struct<key:string,level:"
    ):
        settle(operations.drop("needs"), events)
    with pytest.raises(InvalidArgument, match="needs a column 'at' of type timestamp; it has 'key', 'At', 'level'"):
        settle(operations, events.withColumnRenamed("at", "At"))
    with pytest.raises(InvalidType, match="'delay_ms' of type bigint; it is of type string"):
        settle(operations.withColumn("delay_ms", F.lit("5")), events)
    with pytest.raises(InvalidType, match=r"'needs' of type .*; it is of type array<string>"):
        settle(operations.withColumn("needs", F.array(F.lit("k"))), events)
    with pytest.raises(InvalidArgument, match="has 2 of that name"):
        settle(operations.select("*", F.lit(1).alias("op_id")), events)
    with pytest.raises(InvalidArgument, match="column 'Reason' that would clash"):
        settle(operations.withColumn("Reason", F.lit(1)), events)


def test_misuse_is_said(operations: DataFrame, events: DataFrame) -> None:
    with pytest.raises(InvalidType, match="as_of must be a datetime, not int"):
        settle(operations, events, as_of=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="options must be SettleOptions, not dict"):
        settle(operations, events, options={})  # type: ignore[arg-type]


def test_reasonable_types_are_taken_and_settings_make_no_difference(
    spark: SparkSession, settings: dict[str, str]
) -> None:
    assert settings
    # 02:30 does not exist in New York on that day; timestamp_ntz is read as UTC.
    operations = spark.sql(
        "select 'op' collate UTF8_LCASE as op_id, timestamp_ntz'2026-03-08 02:30:00.000999' as submitted_at, "
        "tinyint(9) as delay_ms, array(struct(smallint(3) as level, 'k' as key)) as needs, bigint(1) as quorum, "
        "null as volume, 'mine' as `Op_Id2`"
    )
    events = spark.sql("select 'k' as key, timestamp'2026-03-08T02:30:00.004999Z' as at, int(3) as level, 1 as other")
    settled = settle(operations, events, options=SettleOptions())
    assert settled.schema.names == [*OUTCOMES.names, "Op_Id2"]
    assert [f.dataType for f in settled.schema][:6] == [f.dataType for f in OUTCOMES]
    (row,) = settled.withColumn("finished_at", F.unix_millis("finished_at")).collect()
    at = int(datetime(2026, 3, 8, 2, 30, tzinfo=UTC).timestamp()) * 1000 + 4
    assert tuple(row) == ("op", "completed", at, 4, "k", None, "mine")


def test_bad_rows_raise_with_no_setting(spark: SparkSession, settings: dict[str, str]) -> None:
    assert settings
    waits, events = histories(range(4000, 4060))
    found = frames.outcomes(settle(frames.operations(spark, waits), frames.events(spark, events)))
    spark.conf.set("spark.sql.ansi.enabled", "true")
    assert found == frames.outcomes(settle(frames.operations(spark, waits), frames.events(spark, events)))


def test_as_of_is_cut_to_the_millisecond_and_utc(operations: DataFrame, events: DataFrame) -> None:
    just_before = datetime(1970, 1, 1, 0, 0, 0, 103_999)
    assert [r.outcome for r in settle(operations, events, as_of=just_before).collect()] == ["pending"]
    then = datetime(1970, 1, 1, 0, 0, 0, 104_000, tzinfo=UTC)
    assert [r.outcome for r in settle(operations, events, as_of=then).collect()] == ["completed"]


def test_identity_and_set_aside(spark: SparkSession) -> None:
    wait = Wait("op", [Need("k")], 10, 100)
    waits = [wait, wait, wait._replace(delay_ms=5), wait._replace(op_id=None), wait._replace(op_id=None)]
    events = [Event("k", 104), Event(None, 1), Event("k", None), Event("k", 253_402_300_800_000)]
    operations, happened = frames.operations(spark, waits), frames.events(spark, events)
    (row,) = identity(operations, settle(operations, happened)).collect()
    assert row.asDict() == {
        "rows": 5,
        "repeats": 1,
        "operations": 4,
        "completed": 1,
        "expired": 0,
        "rejected": 3,
        "pending": 0,
        "balanced": True,
    }
    aside = set_aside(happened.select("*", F.lit("mine").alias("Key")))
    assert aside.columns == ["key", "at", "level", "Key", "set_aside"]
    assert sorted(row.set_aside for row in aside.drop("at").collect()) == [
        "at is null",
        "at is out of range: 253402300800000",
        "key is null",
    ]


def test_the_plan_has_no_nested_loop_and_no_python_and_nothing_runs_before_an_action(
    spark: SparkSession, operations: DataFrame, events: DataFrame
) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup()
    settled = settle(operations.withColumn("more", F.lit(1)), events)
    plan = settled._jdf.queryExecution().executedPlan().toString()
    assert tracker.getJobIdsForGroup() == before
    # With a set of all needs beside each of them, an operation with n needs would be n times n.
    for dreaded in ("NestedLoop", "CartesianProduct", "SortMergeJoin", "Python", "collect_"):
        assert dreaded not in plan


def test_a_way_that_nobody_takes_is_not_run(operations: DataFrame, events: DataFrame) -> None:
    settled = settle(operations, events)
    settled.collect()
    final, _, initial = settled._jdf.queryExecution().executedPlan().toString().partition("== Initial Plan ==")
    assert initial.count("Window [") > 1
    # One need, no op_id twice: a running minimum is all there is.
    assert final.count("Window [") == 1


def test_events_whose_level_is_a_literal_null_are_signals(spark: SparkSession) -> None:
    operations = frames.operations(spark, [Wait("op", [Need("k")], 10, 100)])
    events = frames.events(spark, [Event("k", 104, 3)]).withColumn("level", F.lit(None).cast("bigint"))
    assert [(row.outcome, row.waited_ms) for row in settle(operations, events).collect()] == [("completed", 4)]


def test_needs_whose_level_is_a_literal_null_are_signals(spark: SparkSession, events: DataFrame) -> None:
    operations = frames.operations(spark, [Wait("op", [Need("k")], 10, 100)])
    signal = F.array(F.struct(F.lit("k").alias("key"), F.lit(None).cast("bigint").alias("level")))
    settled = settle(operations.withColumn("needs", signal), events)
    assert [(row.outcome, row.waited_ms) for row in settled.collect()] == [("completed", 4)]
    assert "NestedLoop" not in settled._jdf.queryExecution().executedPlan().toString()
