"""confluent-kafka (librdkafka), unchanged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from dwell.broker import Cluster
from dwell.clock import ManualClock

pytestmark = pytest.mark.client


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics={"orders": {"partitions": 3, "replication": 3, "min_insync": 2}}) as made:
        yield made


def producer(cluster: Cluster, **config: Any) -> Producer:
    # A client's own log lines about brokers that we kill are none of the test's business.
    return Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "log_level": 0, "acks": "all"}
        | {name.replace("_", "."): value for name, value in config.items()}
    )


def consumer(cluster: Cluster, **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        | {name.replace("_", "."): value for name, value in config.items()}
    )


def read(one: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        message = one.poll(10)
        assert message is not None, f"{len(messages)} of {count} messages"
        assert message.error() is None, message.error()
        messages.append(message)
    return messages


def test_the_example_of_the_readme(cluster: Cluster) -> None:
    client = producer(cluster)
    cluster.broker(2).freeze()
    client.produce("orders", b"tea", partition=0)
    waiting = cluster.wait_for("produce")
    assert waiting.unmet == "orders-0 must reach 1; high watermark 0, replica 2 is at 0, frozen"
    assert str(waiting).startswith("produce v10 of rdkafka, broker 0, since ")
    assert cluster.records("orders") == []
    cluster.broker(2).thaw()
    (record,) = cluster.wait_for_records("orders", 1)
    assert (record.partition, record.offset, record.value) == (0, 0, b"tea")
    assert client.flush(10) == 0
    words = str(cluster.timeline(waiting))
    assert "appended to orders-0 up to 1 → parked in produce" in words
    assert "replica 2 has fetched up to 1 → high watermark of orders-0 1 → completed by orders-0" in words


def test_a_produce_gives_up(manual_clock: ManualClock) -> None:
    with Cluster(brokers=3, clock=manual_clock, topics={"orders": 1}) as cluster:
        cluster.broker(1).freeze()
        outcome: list[Any] = []
        client = producer(cluster, retries=0, request_timeout_ms=20_000)
        client.produce("orders", b"tea", on_delivery=lambda error, _: outcome.append(error))
        cluster.wait_for("produce")
        assert [wait.kind for wait in cluster.advance(20_000)] == ["produce"]
        client.flush(10)
        assert outcome[0].name() == "REQUEST_TIMED_OUT"
        (line,) = cluster.requests("produce")
        assert (line.is_expired, line.waited_in, line.errors) == (True, "produce", ("REQUEST_TIMED_OUT",))
        assert cluster.partition("orders", 0).log_end() == 1
        assert cluster.records("orders") == []


def test_acks_all_is_answered_when_the_lag_of_a_follower_is_over(manual_clock: ManualClock) -> None:
    with Cluster(brokers=3, clock=manual_clock, topics={"orders": 1}) as cluster:
        cluster.broker(1).lag(100)
        delivered: list[Any] = []
        client = producer(cluster)
        client.produce("orders", b"tea", on_delivery=lambda _, message: delivered.append(message.offset()))
        cluster.wait_for("produce")
        assert cluster.advance(99) == []
        assert cluster.waiting("produce")
        cluster.advance(1)
        assert not cluster.waiting("produce")
        client.flush(10)
        assert delivered == [0]
        assert cluster.requests("produce")[0].answered_ms == 100


def test_an_idempotent_producer_writes_each_record_once_while_leaders_move(cluster: Cluster) -> None:
    client = producer(cluster, enable_idempotence=True)
    for number in range(300):
        client.produce("orders", b"%d" % number, partition=0)
        client.poll(0)
        if number % 50 == 25:
            cluster.partition("orders", 0).move_leader(number // 50 % 3)
    assert client.flush(30) == 0
    assert [int(record.value or b"") for record in cluster.partition("orders", 0).records()] == list(range(300))
    assert cluster.partition("orders", 0).epoch >= 5


def test_a_long_poll_is_woken_by_the_produce_that_fills_it(cluster: Cluster) -> None:
    reader = consumer(cluster, fetch_wait_max_ms=60_000, socket_timeout_ms=70_000)
    reader.assign([TopicPartition("orders", 0, 0)])
    reader.poll(0)
    assert cluster.wait_for("fetch", topic="orders").unmet == "0 of 1 bytes in orders-0 from 0"
    client = producer(cluster)
    client.produce("orders", b"tea", key=b"k", headers={"h": b"1"}, partition=0)
    client.flush(10)
    (message,) = read(reader, 1)
    assert (message.value(), message.key(), message.headers()) == (b"tea", b"k", [("h", b"1")])
    line = next(line for line in cluster.requests("fetch") if line.waited_in)
    assert line.completed_by == "orders-0"
    assert not line.is_expired
    reader.close()


def test_a_broker_is_killed_and_comes_back(cluster: Cluster) -> None:
    client = producer(cluster, enable_idempotence=True)
    for number in range(50):
        client.produce("orders", b"%d" % number, partition=0)
    client.flush(10)
    cluster.broker(0).kill()
    assert cluster.partition("orders", 0).leader != 0
    assert cluster.partition("orders", 0).isr == (1, 2)
    for number in range(50, 100):
        client.produce("orders", b"%d" % number, partition=0)
    assert client.flush(30) == 0
    cluster.broker(0).restart()
    partition = cluster.partition("orders", 0)
    assert partition.isr == (0, 1, 2)
    assert partition.log_end(0) == 100
    partition.elect()
    assert partition.leader == 0
    reader = consumer(cluster)
    reader.assign([TopicPartition("orders", 0, 0)])
    assert [int(message.value() or b"") for message in read(reader, 100)] == list(range(100))
    reader.close()


def test_a_killed_broker_never_answers_what_waited_there(cluster: Cluster) -> None:
    cluster.broker(1).freeze()
    cluster.broker(2).freeze()
    client = producer(cluster, retries=0, enable_idempotence=False)
    errors: list[Any] = []
    client.produce("orders", b"tea", partition=0, on_delivery=lambda error, _: errors.append(error))
    waiting = cluster.wait_for("produce")
    cluster.broker(0).kill()
    assert client.flush(10) == 0
    assert errors[0].code() == KafkaError._TRANSPORT
    assert cluster.waiting() == []
    line = next(line for line in cluster.requests("produce") if line.number == waiting.request)
    assert line.answered_ms is None


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_passes_through(cluster: Cluster, codec: str) -> None:
    client = producer(cluster, compression_type=codec, linger_ms=20)
    for number in range(100):
        client.produce("orders", b"%d" % number * 50, partition=1)
    assert client.flush(10) == 0
    reader = consumer(cluster)
    reader.assign([TopicPartition("orders", 1, 0)])
    assert [message.value() for message in read(reader, 100)] == [b"%d" % number * 50 for number in range(100)]
    reader.close()
    assert [record.value for record in cluster.records("orders")] == [b"%d" % number * 50 for number in range(100)]


def test_too_few_replicas_in_sync_refuse_acks_all(cluster: Cluster) -> None:
    cluster.broker(1).kill()
    cluster.broker(2).kill()
    assert cluster.partition("orders", 0).isr == (0,)
    client = producer(cluster, retries=0)
    errors: list[Any] = []
    client.produce("orders", b"tea", partition=0, on_delivery=lambda error, _: errors.append(error))
    client.flush(10)
    assert errors[0].code() == KafkaError.NOT_ENOUGH_REPLICAS
    assert cluster.partition("orders", 0).log_end() == 0


def test_topics_are_created_grown_and_deleted_by_the_admin_client(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("tea", num_partitions=2, replication_factor=2)])["tea"].result(10)
    assert len(cluster.partition("tea", 1).replicas) == 2
    admin.create_partitions([NewPartitions("tea", 5)])["tea"].result(10)
    assert cluster.partition("tea", 4).leader >= 0
    cluster.produce("tea", b"x", partition=0)
    deleted = admin.delete_records([TopicPartition("tea", 0, 1)])
    assert next(iter(deleted.values())).result(10).low_watermark == 1
    admin.delete_topics(["tea"])["tea"].result(10)
    assert "tea" not in admin.list_topics(timeout=10).topics


def test_creating_a_topic_waits_for_the_controller(manual_clock: ManualClock) -> None:
    with Cluster(brokers=1, clock=manual_clock) as cluster:
        cluster.controller.pause()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        future = admin.create_topics([NewTopic("tea", 1, 1)], operation_timeout=30)["tea"]
        assert cluster.wait_for("topic").unmet == "tea is not known to this broker"
        cluster.controller.resume()
        future.result(10)
        again = admin.create_topics([NewTopic("milk", 1, 1)], operation_timeout=30)["milk"]
        again.result(10)
        cluster.controller.pause()
        late = admin.create_topics([NewTopic("honey", 1, 1)], operation_timeout=30)["honey"]
        cluster.wait_for("topic")
        assert [wait.kind for wait in cluster.advance(30_000)] == ["topic"]
        with pytest.raises(Exception, match=r"REQUEST_TIMED_OUT|timed out"):
            late.result(10)


def test_offsets_for_times_and_watermarks(cluster: Cluster) -> None:
    for number in range(10):
        cluster.produce("orders", b"x", partition=0, timestamp_ms=1_000 + 100 * number)
    reader = consumer(cluster)
    assert reader.get_watermark_offsets(TopicPartition("orders", 0), timeout=10) == (0, 10)
    (found,) = reader.offsets_for_times([TopicPartition("orders", 0, 1_350)], timeout=10)
    assert found.offset == 4
    reader.close()


def test_an_unknown_topic_is_created_when_somebody_writes_to_it(cluster: Cluster) -> None:
    client = producer(cluster)
    client.produce("new", b"tea")
    assert client.flush(10) == 0
    assert len(cluster.records("new")) == 1


def test_two_thousand_produces_while_followers_lag_freeze_and_die(cluster: Cluster) -> None:
    stop = threading.Event()

    def disturb() -> None:
        turn = 0
        while not stop.is_set():
            victim = cluster.broker(1 + turn % 2)
            if turn % 3 == 0:
                victim.freeze()
                victim.thaw()
            elif turn % 3 == 1:
                victim.kill()
                victim.restart()
            else:
                victim.lag(2)
                victim.lag(0)
            turn += 1

    trouble = threading.Thread(target=disturb)
    trouble.start()
    delivered: list[Any] = []
    try:
        client = producer(cluster, enable_idempotence=True)

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered.append(message.value())

        for number in range(2_000):
            client.produce("orders", b"%d" % number, partition=0, on_delivery=note)
            client.poll(0)
        assert client.flush(60) == 0
    finally:
        stop.set()
        trouble.join()
    for broker in cluster.brokers:
        broker.thaw()
    records = [record.value for record in cluster.wait_for_records("orders", 2_000, timeout_s=30)]
    assert records == [b"%d" % number for number in range(2_000)]
    assert delivered == records
