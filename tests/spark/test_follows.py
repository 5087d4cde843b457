"""Did B follow A? Against a model that tries every pair, and one that keeps a stack."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from dwell.errors import InvalidArgument, InvalidType
from dwell.spark import follows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Rows = list[tuple[str | None, int | None, int | None]]


def rows(rng: Random, limits: dict[int, int | None]) -> tuple[Rows, Rows]:
    """Key, time, and a limit that follows from the time, so that rows alike in key and time are alike."""
    a: Rows = []
    b: Rows = []
    for number in range(60):
        for side in (a, b):
            for _ in range(rng.randint(0, 9)):
                at = rng.randint(0, 25) if rng.random() > 0.03 else None
                side.append((f"{number}" if rng.random() > 0.03 else None, at, limits[at or 0]))
    return a, b


def first(a: Rows, b: Rows) -> list[tuple[Any, ...]]:
    found = []
    for key, at, limit in a:
        times: list[int] = []
        if key is not None and at is not None and limit is not None:
            times = [t for k, t, _ in b if k == key and t is not None and at <= t <= at + limit]
        found.append((key, at, min(times, default=None)))
    return found


def brackets(a: Rows, b: Rows) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [(key, at, None) for key, at, _ in a if key is None or at is None]
    by_key: dict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
    for kind, side in enumerate((a, b)):
        for key, at, limit in side:
            if key is not None and at is not None:
                by_key[key].append((at, kind, limit))
    for key, moments in by_key.items():
        still_open: list[tuple[int, int | None]] = []
        for at, kind, limit in sorted(moments, key=lambda m: m[:2]):
            if kind == 0:
                still_open.append((at, limit))
            elif still_open:
                opened, allowed = still_open.pop()
                found.append((key, opened, at if allowed is not None and at - opened <= allowed else None))
        found += [(key, opened, None) for opened, _ in still_open]
    return found


def frame(spark: SparkSession, some: Rows) -> DataFrame:
    made = spark.createDataFrame(some, "key string, at bigint, within bigint", verifySchema=False)
    return made.withColumn("at", F.timestamp_millis("at"))


def pairs(answered: DataFrame) -> Counter[tuple[Any, ...]]:
    ms = answered.select("key", F.unix_millis("at"), F.unix_millis("followed_at"), "followed", "waited_ms").collect()
    for _, at, followed_at, followed, waited in ms:
        assert followed == (followed_at is not None)
        assert waited == (followed_at - at if followed else None)
    return Counter(tuple(row)[:3] for row in ms)


@pytest.mark.parametrize(("once", "model"), [(False, first), (True, brackets)])
@pytest.mark.parametrize("fixed", [True, False])
def test_follows_equals_the_model(spark: SparkSession, once: bool, model: Any, fixed: bool) -> None:
    rng = Random(5 + once)
    limits = {at: 6 if fixed else rng.choice([None, -1, 0, 3, 40]) for at in range(26)}
    a, b = rows(rng, limits)
    answered = follows(
        frame(spark, a), frame(spark, b), on="key", within=timedelta(milliseconds=6) if fixed else "within", once=once
    )
    assert pairs(answered) == Counter(model(a, b))


def test_several_key_columns_other_names_and_extra_columns(spark: SparkSession) -> None:
    noon = datetime(2026, 3, 29, 12, tzinfo=UTC)
    a = spark.createDataFrame(
        [(1, "x", noon, [7]), (1, "y", noon, [8])], "shop int, item string, ordered timestamp, more array<int>"
    )
    b = spark.createDataFrame(
        [(1, "x", (noon + timedelta(minutes=1)).replace(tzinfo=None))], "shop int, item string, sent timestamp_ntz"
    )
    answered = follows(a, b, on=["shop", "item"], within=60_000, at=("ordered", "sent"))
    assert answered.columns == ["shop", "item", "ordered", "more", "followed", "followed_at", "waited_ms"]
    assert sorted((r.item, r.more, r.followed, r.waited_ms) for r in answered.collect()) == [
        ("x", [7], True, 60_000),
        ("y", [8], False, None),
    ]


def test_misuse_is_said_before_any_job(spark: SparkSession) -> None:
    a = frame(spark, [("k", 1, 1)])
    with pytest.raises(InvalidArgument, match="b has no column 'id'; it has 'key'"):
        follows(a.withColumn("id", F.lit(1)), a, on="id", within=1)
    with pytest.raises(InvalidType, match="a needs a timestamp in column 'within'; it is of type bigint"):
        follows(a, a, on="key", within=1, at="within")
    assert follows(a, a, on="key", within=2**70).columns[-3:] == ["followed", "followed_at", "waited_ms"]
    with pytest.raises(InvalidArgument, match="within must not be negative: -1"):
        follows(a, a, on="key", within=-1)
    with pytest.raises(InvalidType, match="a needs milliseconds in column 'key'"):
        follows(a, a, on="key", within="key")
    with pytest.raises(InvalidArgument, match="'followed', which follows adds"):
        follows(a.withColumn("Followed", F.lit(1)), a, on="key", within=1)
