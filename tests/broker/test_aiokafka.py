"""aiokafka, unchanged, with `async with Cluster(...)`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from dwell.broker import Cluster
from dwell.clock import ManualClock

pytestmark = pytest.mark.client


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine."""

    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@in_a_loop
async def test_the_example_of_the_readme() -> None:
    async with Cluster(brokers=3, topics={"orders": {"partitions": 1, "replication": 3}}) as cluster:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, acks="all", client_id="me"
        ) as producer:
            cluster.broker(2).freeze()
            sending = await producer.send("orders", b"tea", partition=0)
            waiting = await cluster.until("produce")
            assert waiting.client_id == "me"
            assert waiting.unmet == "orders-0 must reach 1; high watermark 0, replica 2 is at 0, frozen"
            assert not sending.done()
            cluster.broker(2).thaw()
            assert (await sending).offset == 0
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition("orders", 0)])
        assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"tea"
        await consumer.stop()


@in_a_loop
async def test_a_produce_gives_up_and_the_client_tries_again() -> None:
    async with Cluster(brokers=3, clock=ManualClock(), topics={"orders": 1}) as cluster:
        cluster.broker(1).freeze()
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", request_timeout_ms=20_000)
        async with producer:
            sending = await producer.send("orders", b"tea")
            await cluster.until("produce")
            assert [wait.kind for wait in cluster.advance(20_000)] == ["produce"]
            assert cluster.requests("produce")[0].errors == ("REQUEST_TIMED_OUT",)
            cluster.broker(1).thaw()
            assert (await sending).offset == 1
        # The append that timed out was not undone, and this producer is not idempotent.
        assert [record.value for record in cluster.records("orders")] == [b"tea", b"tea"]


@in_a_loop
async def test_a_long_poll_is_woken_by_the_produce_that_fills_it() -> None:
    async with Cluster(brokers=3, topics={"orders": 1}) as cluster:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=30_000
        )
        await consumer.start()
        consumer.assign([TopicPartition("orders", 0)])
        reading = asyncio.ensure_future(consumer.getone())
        await cluster.until("fetch")
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            await producer.send_and_wait("orders", b"tea", key=b"k")
        record = await asyncio.wait_for(reading, 10)
        assert (record.key, record.value, record.offset) == (b"k", b"tea", 0)
        await consumer.stop()


@in_a_loop
async def test_an_idempotent_producer_while_leaders_move() -> None:
    async with Cluster(brokers=3, topics={"orders": 1}) as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, retry_backoff_ms=10
        )
        async with producer:
            sending = []
            for number in range(200):
                sending.append(await producer.send("orders", b"%d" % number))
                if number % 50 == 25:
                    cluster.partition("orders", 0).move_leader(number // 50 % 3)
                    await asyncio.sleep(0)
            await asyncio.wait_for(asyncio.gather(*sending), 30)
        assert [int(record.value or b"") for record in cluster.records("orders")] == list(range(200))


@in_a_loop
async def test_a_consumer_goes_on_after_its_broker_died() -> None:
    async with Cluster(brokers=3, topics={"orders": 1}) as cluster:
        for number in range(10):
            cluster.produce("orders", b"%d" % number)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", retry_backoff_ms=10
        )
        await consumer.start()
        consumer.assign([TopicPartition("orders", 0)])
        first = [await asyncio.wait_for(consumer.getone(), 10) for _ in range(10)]
        cluster.broker(0).kill()
        for number in range(10, 20):
            cluster.produce("orders", b"%d" % number)
        second = [await asyncio.wait_for(consumer.getone(), 30) for _ in range(10)]
        assert [int(record.value) for record in first + second] == list(range(20))
        await consumer.stop()
