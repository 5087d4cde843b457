"""Every clause of the contract by hand. All cases run in one job, kept apart by a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from dwell.ledger import Event, Need, Wait
from dwell.spark.schema import plain_events, plain_operations
from dwell.spark.settle import settle_plain
from tests.spark import frames
from tests.spark.histories import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS, apart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BIG = 2**63 - 1


class Case(NamedTuple):
    waits: list[Wait]
    events: list[Event]
    expected: list[tuple[object, ...]]
    """outcome, finished_at_ms, waited_ms, completed_by, reason; sorted."""


def one(wait: Wait, events: list[Event], *expected: object) -> Case:
    return Case([wait], events, [(*expected, None)])


def signal(delay_ms: int = 10, submitted_at_ms: int = 100) -> Wait:
    return Wait("op", [Need("k")], delay_ms, submitted_at_ms)


def level(least: int) -> Wait:
    return Wait("op", [Need("k", least)], 10, 100)


def three(quorum: int | None = None) -> Wait:
    return Wait("op", [Need("c"), Need("a", 5), Need("b")], 10, 100, quorum)


def volume(of: int, a: int = 0, b: int = 0) -> Wait:
    return Wait("op", [Need("a", a), Need("b", b)], 10, 100, volume=of)


def rejected(wait: Wait, reason: str) -> Case:
    return Case([wait], [Event("k", 100, 1)], [("rejected", None, None, None, reason)])


CASES = {
    "a signal is met by an event at submission": one(signal(), [Event("k", 100)], "completed", 100, 0, "k"),
    "a signal is met by an event at the deadline": one(signal(), [Event("k", 110)], "completed", 110, 10, "k"),
    "a signal before submission is nothing": one(signal(), [Event("k", 99)], "expired", 110, 10, None),
    "a signal after the deadline is too late": one(signal(), [Event("k", 111)], "expired", 110, 10, None),
    "the first of several signals counts": one(
        signal(), [Event("k", 107), Event("k", 103, 8), Event("k", 98)], "completed", 103, 3, "k"
    ),
    "an event on another key is nothing": one(signal(), [Event("j", 103)], "expired", 110, 10, None),
    "delay 0 sees its own instant": one(signal(0), [Event("k", 100)], "completed", 100, 0, "k"),
    "delay 0 expires at once": one(signal(0), [Event("k", 101)], "expired", 100, 0, None),
    "a level reached before submission counts": one(level(5), [Event("k", 3, 7)], "completed", 100, 0, "k"),
    "a level is reached from the first event at or above it": one(
        level(5), [Event("k", 99, 4), Event("k", 108, 9), Event("k", 104, 5)], "completed", 104, 4, "k"
    ),
    "an event without a level moves no level": one(level(-5), [Event("k", 104)], "expired", 110, 10, None),
    "levels never fall": one(level(5), [Event("k", 50, 5), Event("k", 90, 1)], "completed", 100, 0, "k"),
    "all: the last need decides": one(
        three(), [Event("a", 99, 5), Event("b", 102), Event("c", 104)], "completed", 104, 4, "c"
    ),
    "all: one unmet need is enough to expire": one(
        three(), [Event("a", 99, 5), Event("b", 102)], "expired", 110, 10, None
    ),
    "all: of needs met at one instant the smallest key": one(
        three(), [Event("a", 99, 5), Event("c", 104), Event("b", 104)], "completed", 104, 4, "b"
    ),
    "any: the first need decides, before submission is submission": one(
        three(1), [Event("a", 7, 5), Event("b", 100), Event("c", 100)], "completed", 100, 0, "a"
    ),
    "quorum: the second need decides": one(
        three(2), [Event("a", 109, 5), Event("b", 105), Event("c", 103)], "completed", 105, 5, "b"
    ),
    "quorum: a need beyond the quorum may name the key": one(
        three(2), [Event("a", 105, 5), Event("b", 105), Event("c", 103)], "completed", 105, 5, "a"
    ),
    "quorum of all": one(three(3), [Event("a", 1, 5), Event("b", 101), Event("c", 103)], "completed", 103, 3, "c"),
    "volume adds up over keys": one(
        volume(10), [Event("a", 50, 4), Event("b", 103, 5), Event("b", 105, 6)], "completed", 105, 5, "b"
    ),
    "volume does not count below the need": one(
        volume(10, a=4), [Event("a", 101, 3), Event("b", 103, 9)], "expired", 110, 10, None
    ),
    "volume reached before submission": one(
        volume(3), [Event("a", 50, 4), Event("b", 60, 5)], "completed", 100, 0, "b"
    ),
    "volume: the latest rise up to the finish, also before submission": one(
        volume(3),
        [Event("b", 50, 9), Event("a", 60, 4), Event("b", 70, 10), Event("b", 100, 2)],
        "completed",
        100,
        0,
        "b",
    ),
    "volume: a key that does not contribute is not named": one(
        volume(3, b=100), [Event("a", 50, 4), Event("b", 60, 5)], "completed", 100, 0, "a"
    ),
    "volume: of rises at one instant the smallest key": one(
        volume(8), [Event("b", 104, 4), Event("a", 104, 4)], "completed", 104, 4, "a"
    ),
    "volume over one key": one(
        Wait("op", [Need("k", 3)], 10, 100, volume=4),
        [Event("k", 101, 6), Event("k", 107, 7)],
        "completed",
        107,
        7,
        "k",
    ),
    "volume over one key beyond 64 bits is never reached": one(
        Wait("op", [Need("k", 3)], 10, 100, volume=BIG), [Event("k", 101, BIG)], "expired", 110, 10, None
    ),
    "volume does not wrap": one(
        volume(BIG, a=-BIG, b=-BIG), [Event("a", 101, -1), Event("b", 102, 1)], "completed", 102, 2, "b"
    ),
    "volume larger than 64 bits in one key": one(
        volume(BIG, a=-BIG - 1, b=0), [Event("a", 101, BIG)], "completed", 101, 1, "a"
    ),
    "volume after the deadline": one(volume(5), [Event("a", 101, 4), Event("b", 111, 4)], "expired", 110, 10, None),
    "the empty string is a key": one(Wait("op", [Need("")], 10, 100), [Event("", 101)], "completed", 101, 1, ""),
    "bad events are set aside": Case(
        [signal()], [Event(None, 101), Event("k", None), Event("k", 2**53)], [("expired", 110, 10, None, None)]
    ),
    "a repeat is the same operation": Case(
        [three(2), three(2)._replace(needs=[Need("b"), Need("c"), Need("a", 5)])],
        [Event("b", 103), Event("c", 104)],
        [("completed", 104, 4, "c", None)],
    ),
    "a repeated volume counts once": Case(
        [volume(8), volume(8)], [Event("a", 101, 5), Event("b", 103, 3)], [("completed", 103, 3, "b", None)]
    ),
    "a rejected repeat is rejected once": Case(
        [signal(-1), signal(-1)], [], [("rejected", None, None, None, "delay_ms is negative: -1")]
    ),
    "rows without op_id are never repeats": Case(
        [signal()._replace(op_id=None), signal()._replace(op_id=None), signal()._replace(op_id="")],
        [],
        [
            ("rejected", None, None, None, "op_id is empty"),
            ("rejected", None, None, None, "op_id is null"),
            ("rejected", None, None, None, "op_id is null"),
        ],
    ),
    "of other contents the earliest is first": Case(
        [signal(submitted_at_ms=101), signal(), volume(3)._replace(delay_ms=11), signal(-1, 1)],
        [Event("k", 105)],
        [
            ("completed", 105, 5, "k", None),
            ("rejected", None, None, None, "delay_ms is negative: -1"),
            ("rejected", None, None, None, "op_id was used before with other content: {op}"),
            ("rejected", None, None, None, "op_id was used before with other content: {op}"),
        ],
    ),
    "null op_id": rejected(signal()._replace(op_id=None), "op_id is null"),
    "empty op_id": rejected(signal()._replace(op_id=""), "op_id is empty"),
    "null submitted_at": rejected(signal()._replace(submitted_at_ms=None), "submitted_at is null"),
    "submitted_at too late": rejected(
        signal(submitted_at_ms=253_402_300_800_000), "submitted_at is out of range: 253402300800000"
    ),
    "submitted_at too early": rejected(
        signal(submitted_at_ms=-62_135_596_800_001), "submitted_at is out of range: -62135596800001"
    ),
    "null delay": rejected(signal()._replace(delay_ms=None), "delay_ms is null"),
    "deadline out of range": rejected(signal(BIG), f"delay_ms puts the deadline out of range: {BIG}"),
    "null needs": rejected(signal()._replace(needs=None), "needs is null"),
    "no needs": rejected(signal()._replace(needs=[]), "needs is empty"),
    "null key": rejected(signal()._replace(needs=[Need("k"), Need(None)]), "needs has a null key"),
    "repeated key": rejected(
        signal()._replace(needs=[Need(k, i) for i, k in enumerate("dbcadb")]), "needs repeats a key: {key}b"
    ),
    "quorum 0": rejected(three(0), "quorum is outside 1 to the number of needs: 0"),
    "quorum too large": rejected(three(4), "quorum is outside 1 to the number of needs: 4"),
    **{
        f"quorum {quorum}": rejected(three(quorum), f"quorum is outside 1 to the number of needs: {quorum}")
        for quorum in (3_000_000_000, -(2**31), 2**31, BIG, -BIG - 1)
    },
    "least delay": rejected(signal(-BIG - 1), f"delay_ms is negative: {-BIG - 1}"),
    "least volume": rejected(volume(-BIG - 1), f"volume is not positive: {-BIG - 1}"),
    "the first of all timestamps": rejected(
        signal(-BIG - 1, FIRST_TIMESTAMP_MS), f"submitted_at is out of range: {FIRST_TIMESTAMP_MS}"
    ),
    "the last of all timestamps": rejected(
        signal(BIG, LAST_TIMESTAMP_MS), f"submitted_at is out of range: {LAST_TIMESTAMP_MS}"
    ),
    "the least level there is": one(level(-BIG - 1), [Event("k", 101, -BIG - 1)], "completed", 101, 1, "k"),
    "the greatest level there is": one(level(BIG), [Event("k", 101, BIG)], "completed", 101, 1, "k"),
    "an event at the ends of all timestamps is set aside": one(
        signal(), [Event("k", FIRST_TIMESTAMP_MS, BIG), Event("k", LAST_TIMESTAMP_MS, -BIG)], "expired", 110, 10, None
    ),
    "volume 0": rejected(volume(0), "volume is not positive: 0"),
    "volume with quorum": rejected(volume(1)._replace(quorum=1), "volume excludes quorum: 1"),
    "volume without level": rejected(
        volume(1)._replace(needs=[Need("z"), Need("b", 1), Need("y")]), "volume needs a level for every key: {key}y"
    ),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[int, list[tuple[object, ...]]]:
    waits: list[tuple[int, Wait]] = []
    events: list[Event] = []
    for number, case in enumerate(CASES.values()):
        some_waits, some_events = apart(f"{number}:", case.waits, case.events)
        waits += [(number, wait) for wait in some_waits]
        events += some_events
    operations = plain_operations(frames.many_operations(spark, waits))
    settled = settle_plain(operations, plain_events(frames.events(spark, events)), as_of_ms=None)
    answers: dict[int, list[tuple[object, ...]]] = {}
    for row in frames.with_extra(settled):
        answers.setdefault(row[-1], []).append(row[1:-1])
    return answers


@pytest.mark.parametrize("name", CASES)
def test_contract(found: dict[int, list[tuple[object, ...]]], name: str) -> None:
    number = list(CASES).index(name)
    prefix = f"{number}:"
    expected = [
        (*row[:3], prefix + str(row[3]) if row[3] is not None else None, _filled(row[4], prefix))
        for row in CASES[name].expected
    ]
    assert sorted(found[number], key=repr) == sorted(expected, key=repr)


def _filled(reason: object, prefix: str) -> object:
    return reason and str(reason).replace("{op}", f"{prefix}op").replace("{key}", prefix)
