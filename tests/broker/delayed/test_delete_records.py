"""DeleteRecords waits until every living replica has moved its log start."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.host import Host
from dwell.broker.waiting import Waiting
from dwell.broker.wire.message.topic import DELETE_RECORDS
from tests.broker.core import Client, error, led, make_host, records


@pytest.fixture
def host() -> Host:
    made = make_host(3, {"orders": {"replication": 3}})
    writer = Client(made)
    for number in range(5):
        writer.produce(records(b"%d" % number))
    return made


def delete(client: Client, offset: int, timeout_ms: int = 1_000, topic: str = "orders") -> list[Any]:
    request = DELETE_RECORDS.Request
    asked = request.DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [request.DeleteRecordsTopic(name=topic, partitions=[asked])]
    client.send(DELETE_RECORDS, 2, request(topics=topics, timeout_ms=timeout_ms))
    return deleted(client)


def deleted(client: Client) -> list[Any]:
    return [answer.topics[0].partitions[0] for answer in client.take()]


def test_with_followers_that_fetch_it_is_answered_at_once(host: Host) -> None:
    (answer,) = delete(Client(host), 3)
    assert (error(answer), answer.low_watermark) == ("NONE", 3)
    assert [broker.partitions["orders", 0].log.start_offset for broker in host.brokers] == [3, 3, 3]
    assert error(Client(host).fetch(2)[0]) == "OFFSET_OUT_OF_RANGE"


def test_minus_one_means_the_high_watermark(host: Host) -> None:
    (answer,) = delete(Client(host), -1)
    assert answer.low_watermark == 5


def test_it_waits_for_a_frozen_follower_and_times_out(host: Host) -> None:
    host.freeze(2)
    client = Client(host)
    assert delete(client, 3) == []
    (parked,) = host.parked
    assert Waiting.of(parked).unmet == ("orders-0 must start at 3; low watermark 0, replica 2 starts at 0, frozen")
    assert [wait.kind for wait in host.advance(1_000)] == ["delete_records"]
    assert error(deleted(client)[0]) == "REQUEST_TIMED_OUT"
    assert led(host).log.start_offset == 3


def test_a_follower_that_dies_is_not_waited_for(host: Host) -> None:
    host.freeze(2)
    client = Client(host)
    delete(client, 3)
    host.kill(2)
    host.agenda.drain()
    (answer,) = deleted(client)
    assert (error(answer), answer.low_watermark) == ("NONE", 3)


def test_a_moved_leader_dooms_it(host: Host) -> None:
    host.freeze(2)
    client = Client(host)
    delete(client, 3)
    host.controller.move_leader("orders", 0, 1)
    host.agenda.drain()
    assert error(deleted(client)[0]) == "NOT_LEADER_OR_FOLLOWER"


@pytest.mark.parametrize("offset", [6, -2])
def test_an_offset_beyond_the_high_watermark_is_refused(host: Host, offset: int) -> None:
    assert error(delete(Client(host), offset)[0]) == "OFFSET_OUT_OF_RANGE"


def test_an_unknown_topic_is_refused(host: Host) -> None:
    assert error(delete(Client(host), 1, topic="none")[0]) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    ("policy", "expected"), [("compact", "POLICY_VIOLATION"), ("compact,delete", "NONE"), ("delete", "NONE")]
)
def test_nothing_is_deleted_from_a_topic_that_is_only_compacted(policy: str, expected: str) -> None:
    host = make_host(1, {"orders": {"configs": {"cleanup.policy": policy}}})
    (answer,) = delete(Client(host), 0)
    assert error(answer) == expected
