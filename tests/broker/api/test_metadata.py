"""Metadata, DescribeCluster and DescribeTopicPartitions: the cluster as one broker knows it."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.host import Host
from dwell.broker.wire import Error
from dwell.broker.wire.message.cluster import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, METADATA
from tests.broker.core import Client, error, make_host


@pytest.fixture
def host() -> Host:
    return make_host(3, {"orders": {"partitions": 2, "replication": 2}})


def ask(client: Client, *names: str, version: int = 12, **fields: Any) -> Any:
    topics = [METADATA.Request.MetadataRequestTopic(name=name) for name in names]
    return client.call(METADATA, version, topics=topics, **fields)


def test_brokers_leaders_and_replicas(host: Host) -> None:
    answer = ask(Client(host), "orders")
    assert [(one.node_id, one.port) for one in answer.brokers] == [(0, 9092), (1, 9093), (2, 9094)]
    assert (answer.controller_id, answer.cluster_id) == (0, host.cluster_id)
    (topic,) = answer.topics
    assert [
        (one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes, one.leader_epoch)
        for one in topic.partitions
    ] == [(0, 0, [0, 1], [0, 1], 0), (1, 1, [1, 2], [1, 2], 0)]


@pytest.mark.parametrize("version", range(14))
def test_all_topics_in_every_version(host: Host, version: int) -> None:
    answer = Client(host).call(METADATA, version, topics=[] if version == 0 else None)
    assert [topic.name for topic in answer.topics] == ["orders"]


def test_no_topics_are_asked_for_by_an_empty_list(host: Host) -> None:
    assert ask(Client(host)).topics == []


def test_an_unknown_topic_is_in_the_first_answer_if_it_may_be_created(host: Host) -> None:
    (topic,) = ask(Client(host), "new").topics
    assert error(topic) == "NONE"
    assert len(topic.partitions[0].replica_nodes) == 3
    (refused,) = ask(Client(host), "newer", allow_auto_topic_creation=False).topics
    assert error(refused) == "UNKNOWN_TOPIC_OR_PARTITION"
    (bad,) = ask(Client(host), "a b").topics
    assert error(bad) == "INVALID_TOPIC_EXCEPTION"


def test_a_late_controller_creates_it_for_a_later_answer(host: Host) -> None:
    host.controller.delay_ms = 10
    client = Client(host)
    assert error(ask(client, "new").topics[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(ask(client, "new").topics[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    host.advance(10)
    assert error(ask(client, "new").topics[0]) == "NONE"


def test_topics_by_id(host: Host) -> None:
    topic_id = host.controller.image.topics["orders"].id
    group = METADATA.Request.MetadataRequestTopic
    answer = Client(host).call(
        METADATA, 12, topics=[group(name=None, topic_id=topic_id), group(name=None, topic_id=b"x" * 16)]
    )
    assert [(topic.name, error(topic)) for topic in answer.topics] == [("orders", "NONE"), (None, "UNKNOWN_TOPIC_ID")]


def test_topics_by_id_are_refused_where_only_the_field_is_there(host: Host) -> None:
    group = METADATA.Request.MetadataRequestTopic
    answer = Client(host).call(METADATA, 11, topics=[group(name=None, topic_id=b"x" * 16), group(name="orders")])
    assert [(topic.name, error(topic)) for topic in answer.topics] == [
        ("", "INVALID_REQUEST"),
        ("orders", "INVALID_REQUEST"),
    ]


def test_a_dead_broker_is_not_listed_and_its_replicas_are_offline(host: Host) -> None:
    host.kill(1)
    answer = ask(Client(host), "orders")
    assert [one.node_id for one in answer.brokers] == [0, 2]
    assert [(one.leader_id, one.isr_nodes, one.offline_replicas) for one in answer.topics[0].partitions] == [
        (0, [0], [1]),
        (2, [2], [1]),
    ]
    host.kill(2)
    second = ask(Client(host), "orders").topics[0].partitions[1]
    assert (error(second), second.leader_id) == ("LEADER_NOT_AVAILABLE", -1)


def test_a_lagging_broker_tells_old_news(host: Host) -> None:
    host.brokers[2].metadata_lag_ms = 50
    host.controller.move_leader("orders", 0, 1)
    client = Client(host, 2)
    assert ask(client, "orders").topics[0].partitions[0].leader_id == 0
    host.advance(50)
    assert ask(client, "orders").topics[0].partitions[0].leader_id == 1


def test_the_cluster_is_described(host: Host) -> None:
    host.kill(2)
    answer = Client(host).call(DESCRIBE_CLUSTER, 2, endpoint_type=1)
    assert [one.broker_id for one in answer.brokers] == [0, 1]
    answer = Client(host).call(DESCRIBE_CLUSTER, 2, endpoint_type=1, include_fenced_brokers=True)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(0, False), (1, False), (2, True)]
    assert Client(host).call(DESCRIBE_CLUSTER, 2, endpoint_type=2).error_code == Error.MISMATCHED_ENDPOINT_TYPE


def test_partitions_are_described_page_by_page() -> None:
    host = make_host(1, {"b": 3, "a": 2})
    client = Client(host)
    cursor = None
    pages = []
    while True:
        answer = client.call(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=2, cursor=cursor)
        pages.append([(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions])
        if answer.next_cursor is None:
            break
        found = answer.next_cursor
        cursor = DESCRIBE_TOPIC_PARTITIONS.Request.Cursor(
            topic_name=found.topic_name, partition_index=found.partition_index
        )
    assert pages == [[("a", 0), ("a", 1)], [("b", 0), ("b", 1)], [("b", 2)]]


def test_unknown_topics_are_described_as_such(host: Host) -> None:
    group = DESCRIBE_TOPIC_PARTITIONS.Request.TopicRequest
    answer = Client(host).call(
        DESCRIBE_TOPIC_PARTITIONS, 0, topics=[group(name="none"), group(name="a b"), group(name="orders")]
    )
    assert [(topic.name, error(topic)) for topic in answer.topics] == [
        ("a b", "INVALID_TOPIC_EXCEPTION"),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("orders", "NONE"),
    ]
