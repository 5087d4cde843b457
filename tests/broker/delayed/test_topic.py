"""CreateTopics, CreatePartitions, DeleteTopics: they wait for this broker's metadata."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.host import Host
from dwell.broker.waiting import Waiting
from dwell.broker.wire import Error
from dwell.broker.wire.message.topic import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from tests.broker.core import Client, error, make_host


@pytest.fixture
def host() -> Host:
    return make_host(3)


def create(client: Client, *topics: dict[str, Any], timeout_ms: int = 1_000, validate_only: bool = False) -> list[Any]:
    request = CREATE_TOPICS.Request
    made = [request.CreatableTopic(**{"num_partitions": -1, "replication_factor": -1} | topic) for topic in topics]
    client.send(CREATE_TOPICS, 7, request(topics=made, timeout_ms=timeout_ms, validate_only=validate_only))
    return client.take()


def delete(client: Client, name: str, timeout_ms: int = 1_000) -> list[Any]:
    client.send(DELETE_TOPICS, 5, DELETE_TOPICS.Request(topic_names=[name], timeout_ms=timeout_ms))
    return client.take()


def grow(client: Client, name: str, count: int, **fields: Any) -> list[Any]:
    request = CREATE_PARTITIONS.Request
    topic = request.CreatePartitionsTopic(name=name, count=count, assignments=fields.pop("assignments", None))
    client.send(CREATE_PARTITIONS, 3, request(topics=[topic], timeout_ms=1_000, **fields))
    return client.take()


def test_with_a_controller_that_is_there_it_is_answered_at_once(host: Host) -> None:
    (answer,) = create(Client(host), {"name": "tea", "num_partitions": 4, "replication_factor": 2})
    (topic,) = answer.topics
    assert (error(topic), topic.num_partitions, topic.replication_factor) == ("NONE", 4, 2)
    assert topic.topic_id == host.controller.image.topics["tea"].id
    assert {config.name: config.value for config in topic.configs}["min.insync.replicas"] == "1"


def test_it_waits_for_a_late_controller_and_for_late_metadata(host: Host) -> None:
    host.controller.delay_ms = 100
    host.brokers[0].metadata_lag_ms = 50
    client = Client(host)
    assert create(client, {"name": "tea"}) == []
    (parked,) = host.parked
    assert Waiting.of(parked).unmet == "tea is not known to this broker"
    host.advance(149)
    assert client.take() == []
    host.advance(1)
    (answer,) = client.take()
    assert error(answer.topics[0]) == "NONE"
    assert host.now_ms() == 150


def test_time_runs_out_but_the_work_goes_on(host: Host) -> None:
    host.controller.is_paused = True
    client = Client(host)
    create(client, {"name": "tea"})
    assert [wait.kind for wait in host.advance(1_000)] == ["topic"]
    assert error(client.take()[0].topics[0]) == "REQUEST_TIMED_OUT"
    host.controller.is_paused = False
    host.controller.decide()
    assert "tea" in host.brokers[0].image.topics


def test_no_time_at_all_is_answered_at_once(host: Host) -> None:
    host.controller.is_paused = True
    (answer,) = create(Client(host), {"name": "tea"}, timeout_ms=0)
    assert error(answer.topics[0]) == "REQUEST_TIMED_OUT"
    assert not host.parked


def test_validating_only_creates_nothing(host: Host) -> None:
    (answer,) = create(Client(host), {"name": "tea"}, validate_only=True)
    assert error(answer.topics[0]) == "NONE"
    assert "tea" not in host.controller.image.topics


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ({"name": "a/b"}, Error.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, Error.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, Error.INVALID_TOPIC_EXCEPTION),
        ({"name": "known"}, Error.TOPIC_ALREADY_EXISTS),
        ({"name": "tea", "num_partitions": 0}, Error.INVALID_PARTITIONS),
        ({"name": "tea", "num_partitions": 2**31 - 1}, Error.POLICY_VIOLATION),
        ({"name": "tea", "assignments": [(0, [0]), (0, [1])]}, Error.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "tea", "replication_factor": 4}, Error.INVALID_REPLICATION_FACTOR),
        ({"name": "tea", "configs": [("no.such", "1")]}, Error.INVALID_CONFIG),
        ({"name": "tea", "configs": [("min.insync.replicas", "many")]}, Error.INVALID_CONFIG),
        ({"name": "tea", "assignments": [(1, [0])]}, Error.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "tea", "assignments": [(0, [0, 0])]}, Error.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "tea", "assignments": [(0, [7])]}, Error.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "tea", "num_partitions": 1, "assignments": [(0, [0])]}, Error.INVALID_REQUEST),
    ],
)
def test_what_is_refused(host: Host, topic: dict[str, Any], expected: Error) -> None:
    create(Client(host), {"name": "known"})
    request = CREATE_TOPICS.Request
    topic = dict(topic)
    topic["configs"] = [
        request.CreatableTopicConfig(name=name, value=value) for name, value in topic.get("configs", ())
    ]
    topic["assignments"] = [
        request.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
        for index, ids in topic.get("assignments", ())
    ]
    (answer,) = create(Client(host), topic)
    assert error(answer.topics[0]) == expected.name
    assert answer.topics[0].error_message


def test_a_name_twice_in_one_request_is_refused(host: Host) -> None:
    (answer,) = create(Client(host), {"name": "tea"}, {"name": "tea"}, {"name": "milk"})
    assert {topic.name: error(topic) for topic in answer.topics} == {"tea": "INVALID_REQUEST", "milk": "NONE"}


def test_an_assignment_is_followed(host: Host) -> None:
    group = CREATE_TOPICS.Request.CreatableReplicaAssignment
    create(Client(host), {"name": "tea", "assignments": [group(partition_index=0, broker_ids=[2, 1])]})
    image = host.controller.image.partition("tea", 0)
    assert image is not None
    assert (image.replicas, image.leader) == ((2, 1), 2)


def test_deleting_waits_until_the_name_is_gone(host: Host) -> None:
    create(Client(host), {"name": "tea"})
    first_id = host.controller.image.topics["tea"].id
    host.brokers[0].metadata_lag_ms = 30
    client = Client(host)
    assert delete(client, "tea") == []
    (parked,) = host.parked
    assert Waiting.of(parked).unmet == "tea is still there"
    host.advance(30)
    assert error(client.take()[0].responses[0]) == "NONE"
    assert error(delete(client, "tea")[0].responses[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    host.brokers[0].metadata_lag_ms = 0
    create(client, {"name": "tea"})
    assert host.controller.image.topics["tea"].id != first_id


def test_partitions_are_added_where_the_assignment_goes_on(host: Host) -> None:
    create(Client(host), {"name": "tea", "num_partitions": 2, "replication_factor": 2})
    (answer,) = grow(Client(host), "tea", 5)
    assert error(answer.results[0]) == "NONE"
    assert [one.replicas for one in host.controller.image.partitions["tea"]] == [(0, 1), (1, 2), (2, 0), (0, 2), (1, 0)]


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("none", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("tea", 2, "INVALID_PARTITIONS"),
        ("tea", 1, "INVALID_PARTITIONS"),
        ("tea", 2**31 - 1, "POLICY_VIOLATION"),
    ],
)
def test_what_cannot_grow(host: Host, name: str, count: int, expected: str) -> None:
    create(Client(host), {"name": "tea", "num_partitions": 2})
    (answer,) = grow(Client(host), name, count)
    assert error(answer.results[0]) == expected
