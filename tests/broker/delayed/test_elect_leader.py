"""ElectLeaders waits until this broker's metadata shows the elected leader."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.host import Host
from dwell.broker.waiting import Waiting
from dwell.broker.wire.message.replica import ELECT_LEADERS
from tests.broker.core import Client, error, led, make_host, records

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def host() -> Host:
    return make_host(3, {"orders": {"partitions": 2, "replication": 3}})


def elect(client: Client, kind: int = PREFERRED, *, index: int | None = 0, timeout_ms: int = 1_000) -> list[Any]:
    request = ELECT_LEADERS.Request
    topics = None if index is None else [request.TopicPartitions(topic="orders", partitions=[index])]
    client.send(ELECT_LEADERS, 2, request(election_type=kind, topic_partitions=topics, timeout_ms=timeout_ms))
    return client.take()


def result(answer: Any) -> str:
    return error(answer.replica_election_results[0].partition_result[0])


def test_the_preferred_leader_leads_again(host: Host) -> None:
    host.controller.move_leader("orders", 0, 2)
    (answer,) = elect(Client(host))
    assert result(answer) == "NONE"
    assert led(host).broker.id == 0


def test_it_waits_for_late_metadata(host: Host) -> None:
    host.controller.move_leader("orders", 0, 2)
    host.brokers[1].metadata_lag_ms = 40
    client = Client(host, 1)
    assert elect(client) == []
    (parked,) = host.parked
    assert Waiting.of(parked).unmet == "orders-0 is led by 2, not by 0"
    assert Waiting.of(parked).keys == ("orders-0",)
    host.advance(40)
    assert result(client.take()[0]) == "NONE"


def test_it_times_out(host: Host) -> None:
    host.controller.move_leader("orders", 0, 2)
    host.controller.is_paused = True
    client = Client(host)
    elect(client)
    assert [wait.kind for wait in host.advance(1_000)] == ["elect_leader"]
    assert result(client.take()[0]) == "REQUEST_TIMED_OUT"


def test_what_is_not_needed_or_not_possible(host: Host) -> None:
    assert result(elect(Client(host))[0]) == "ELECTION_NOT_NEEDED"
    assert result(elect(Client(host), UNCLEAN)[0]) == "ELECTION_NOT_NEEDED"
    assert result(elect(Client(host), index=9)[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    host.kill(0)
    assert result(elect(Client(host, 1))[0]) == "PREFERRED_LEADER_NOT_AVAILABLE"


def test_asked_for_all_it_names_only_what_changed(host: Host) -> None:
    host.controller.move_leader("orders", 0, 2)
    (answer,) = elect(Client(host), index=None)
    assert [
        (one.partition_id, error(one)) for topic in answer.replica_election_results for one in topic.partition_result
    ] == [(0, "NONE")]


def test_an_unclean_election_gives_a_leader_and_loses_records(host: Host) -> None:
    Client(host).produce(records(b"kept"))
    host.freeze(1)
    host.freeze(2)
    Client(host).produce(records(b"lost"), acks=1)
    host.advance(30_001)
    assert led(host).image.isr == (0,)
    host.kill(0)
    host.agenda.drain()
    image = host.controller.image.partition("orders", 0)
    assert image is not None
    assert image.leader == -1
    host.thaw(1)
    host.thaw(2)
    assert result(elect(Client(host, 1), UNCLEAN)[0]) == "NONE"
    assert led(host).log.end_offset == 1
    host.restart(0)
    host.agenda.drain()
    assert host.brokers[0].partitions["orders", 0].log.end_offset == 1
