"""kafka-python, unchanged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from dwell.broker import Cluster
from dwell.clock import ManualClock
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

pytestmark = pytest.mark.client


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics={"orders": {"partitions": 1, "replication": 3}}) as made:
        yield made


def producer(cluster: Cluster, **config: Any) -> Any:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), **{"acks": "all"} | config)


def consumer(cluster: Cluster, **config: Any) -> Any:
    return KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        **{"auto_offset_reset": "earliest", "group_id": None, "consumer_timeout_ms": 10_000} | config,
    )


def test_the_example_of_the_readme(cluster: Cluster) -> None:
    client = producer(cluster)
    cluster.broker(2).freeze()
    sending = client.send("orders", b"tea", partition=0)
    assert cluster.wait_for("produce").unmet.endswith("high watermark 0, replica 2 is at 0, frozen")
    assert not sending.is_done
    cluster.broker(2).thaw()
    assert sending.get(timeout=10).offset == 0
    client.close()
    reader = consumer(cluster)
    reader.assign([TopicPartition("orders", 0)])
    assert next(reader).value == b"tea"
    reader.close()


def test_a_produce_gives_up(manual_clock: ManualClock) -> None:
    with Cluster(brokers=3, clock=manual_clock, topics={"orders": 1}) as cluster:
        cluster.broker(1).freeze()
        client = producer(cluster, retries=0, enable_idempotence=False, request_timeout_ms=20_000)
        sending = client.send("orders", b"tea")
        cluster.wait_for("produce")
        assert [wait.kind for wait in cluster.advance(20_000)] == ["produce"]
        with pytest.raises(KafkaError, match="RequestTimedOut"):
            sending.get(timeout=10)
        client.close()


def test_a_long_poll_is_woken_by_the_produce_that_fills_it(cluster: Cluster) -> None:
    reader = consumer(cluster, fetch_max_wait_ms=5_000)
    reader.assign([TopicPartition("orders", 0)])
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.append(next(reader)))
    reading.start()
    cluster.wait_for("fetch")
    client = producer(cluster)
    client.send("orders", b"tea", key=b"k").get(timeout=10)
    reading.join(20)
    assert (found[0].key, found[0].value) == (b"k", b"tea")
    assert any(line.completed_by == "orders-0" for line in cluster.requests("fetch"))
    client.close()
    reader.close()


def test_an_idempotent_producer_while_leaders_move(cluster: Cluster) -> None:
    client = producer(cluster, enable_idempotence=True, retry_backoff_ms=10)
    sending = []
    for number in range(200):
        sending.append(client.send("orders", b"%d" % number))
        if number % 50 == 25:
            cluster.partition("orders", 0).move_leader(number // 50 % 3)
    for one in sending:
        one.get(timeout=30)
    assert [int(record.value or b"") for record in cluster.records("orders")] == list(range(200))
    client.close()


def test_offsets_and_topics(cluster: Cluster) -> None:
    for number in range(10):
        cluster.produce("orders", b"x", timestamp_ms=1_000 + 100 * number)
    reader = consumer(cluster)
    place = TopicPartition("orders", 0)
    assert reader.end_offsets([place]) == {place: 10}
    assert reader.beginning_offsets([place]) == {place: 0}
    assert reader.offsets_for_times({place: 1_350})[place].offset == 4
    reader.close()
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    admin.create_topics([NewTopic("tea", num_partitions=2, replication_factor=2)])
    assert set(cluster.partition("tea", 1).replicas) <= {0, 1, 2}
    admin.delete_topics(["tea"])
    admin.close()
