"""The broker: start, CPU per request, latency, throughput, woken long polls, memory of what is parked.

Parts, each a table:
  start     three brokers, start and stop: warm (the best of 20 in one process), and first in a process with its imports
  cpu       CPU microseconds of the server per request, eight connections with one request in flight each, beside an
            asyncio server that reads the same frames and answers as many bytes (`broker_host.py`)
  lag       acks=all with followers that lag 0, 20 and 100 ms: milliseconds until the answer
  latency   produce to consume with confluent-kafka, 10 ms apart, consumer in a parked long poll: median milliseconds
  rate      confluent-kafka, records of 1 kB, acks=all: MB/s produced and consumed
  wake      500 long polls on one partition woken by one produce: polls per second, milliseconds of the produce
  park      parked requests on connections of their own: bytes each, and milliseconds until a produce wakes one

Servers: ours in a process of its own, ours in the client's process, librdkafka's mock (in the client's process, over
TCP), and Apache Kafka where Maven or `DWELL_KAFKA_LIBS` has its jars. Figures of one run belong together; the machine
decides the rest.

    python -m benchmarks broker
    python -m benchmarks broker --part cpu --part wake
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.broker_host import Host
from benchmarks.table import print_table
from dwell.broker.record.record import Record, write_batch
from dwell.broker.wire import Api, request_frame, response_frame
from dwell.broker.wire.message.fetch import FETCH
from dwell.broker.wire.message.produce import PRODUCE

PARTS = ("start", "cpu", "lag", "latency", "rate", "wake", "park")
TOPIC = "orders"
VALUE = bytes(1000)
CONNECTIONS = 8
LONG_MS = 60_000


def records(value: bytes = VALUE) -> bytes:
    now_ms = int(time.time() * 1000)
    return write_batch([Record(offset=0, timestamp_ms=now_ms, key=None, value=value)]).data


def produce(value: bytes = VALUE, *, partition: int = 0, acks: int = -1, topic: str = TOPIC) -> bytes:
    r = PRODUCE.Request
    data = r.TopicProduceData(
        name=topic, partition_data=[r.PartitionProduceData(index=partition, records=records(value))]
    )
    return request_frame(PRODUCE, 9, 1, "bench", r(acks=acks, timeout_ms=LONG_MS, topic_data=[data]))


def fetch(*, offset: int, partition: int = 0, max_wait_ms: int = LONG_MS, topic: str = TOPIC) -> bytes:
    r = FETCH.Request
    wanted = r.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1100)
    asked = r.FetchTopic(topic=topic, partitions=[wanted])
    return request_frame(FETCH, 12, 1, "bench", r(topics=[asked], max_wait_ms=max_wait_ms, min_bytes=1))


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    made = socket.create_connection((host, int(port)), timeout=30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def read_frame(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("the server closed the connection")
        data += piece
    return data[4:]


def ask(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    return read_frame(connection)


# start


def start() -> None:
    from dwell.broker import Cluster

    def once() -> float:
        began = time.perf_counter()
        with Cluster(brokers=3):
            pass
        return (time.perf_counter() - began) * 1000

    warm = min(once() for _ in range(20))
    code = (
        "import time; began = time.perf_counter()\n"
        "from dwell.broker import Cluster\n"
        "with Cluster(brokers=3): pass\n"
        "print((time.perf_counter() - began) * 1000)"
    )
    first = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )
    rows: list[list[str | float | None]] = [["dwell", warm, first]]
    print_table("Start and stop of three brokers, milliseconds", ["", "warm", "first, with imports"], rows, 1)


# cpu


def ping(address: str, frame: bytes, seconds: float) -> int:
    """Keeps one request in flight on each connection for so long; returns how many were answered."""
    connections = [connect(address) for _ in range(CONNECTIONS)]
    poll = select.epoll()
    by_number = {}
    for connection in connections:
        by_number[connection.fileno()] = connection
        poll.register(connection.fileno(), select.EPOLLIN)
        connection.sendall(frame)
    answered = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            connection = by_number[number]
            read_frame(connection)
            answered += 1
            connection.sendall(frame)
    for connection in connections:
        read_frame(connection)
        connection.close()
    return answered + CONNECTIONS


def cpu_us(host: Host, frame: bytes, seconds: float = 2.0) -> float:
    """CPU of the server per request, in microseconds: the best of three."""
    ping(host.addresses[0], frame, 0.3)
    best = float("inf")
    for _ in range(3):
        before = host.usage()["cpu_s"]
        answered = ping(host.addresses[0], frame, seconds / 3)
        best = min(best, (host.usage()["cpu_s"] - before) / answered * 1e6)
    return best


def answer_bytes(api: Api, version: int, response: object) -> int:
    return len(response_frame(api, version, 1, response)) - 4


def cpu() -> None:
    p, f = PRODUCE.Response, FETCH.Response
    produced = p(responses=[p.TopicProduceResponse(name=TOPIC, partition_responses=[p.PartitionProduceResponse()])])
    fetched = f(responses=[f.FetchableTopicResponse(topic=TOPIC, partitions=[f.PartitionData(records=records())])])
    cases = [
        ("produce 1 kB, acks=1", produce(acks=1), answer_bytes(PRODUCE, 9, produced), {"replication": 1}),
        ("produce 1 kB, acks=all, one replica", produce(), answer_bytes(PRODUCE, 9, produced), {"replication": 1}),
        ("produce 1 kB, acks=all, three replicas", produce(), answer_bytes(PRODUCE, 9, produced), {"replication": 3}),
        ("fetch 1 kB", fetch(offset=0), answer_bytes(FETCH, 12, fetched), {"replication": 1}),
    ]
    rows: list[list[str | float | None]] = []
    for name, frame, size, options in cases:
        with Host(echo=size) as echo:
            base = cpu_us(echo, frame)
        with Host(brokers=3, topics={TOPIC: {"assignment": [list(range(options["replication"]))]}}) as host:
            with contextlib.closing(connect(host.addresses[0])) as connection:
                ask(connection, produce())
            ours = cpu_us(host, frame)
        rows.append([name, base, ours, f"{ours / base:.2f}"])
    print_table("CPU per request, microseconds", ["", "echo", "dwell", "ratio"], rows, 1)


# lag


def lag() -> None:
    rows: list[list[str | float | None]] = []
    for ms in (0, 20, 100):
        lags = {1: ms, 2: ms} if ms else {}
        with Host(brokers=3, topics={TOPIC: {"assignment": [[0, 1, 2]]}}, lags=lags) as host:
            connection = connect(host.addresses[0])
            frame = produce()
            ask(connection, frame)
            waits = []
            for _ in range(30):
                time.sleep(0.01)
                began = time.perf_counter()
                ask(connection, frame)
                waits.append((time.perf_counter() - began) * 1000)
            connection.close()
        rows.append([f"{ms} ms", statistics.median(waits), max(waits)])
    print_table("acks=all with lagging followers, milliseconds", ["lag", "median", "worst of 30"], rows, 1)


# latency and rate, with confluent-kafka


@contextlib.contextmanager
def apache(brokers: int = 1) -> Iterator[str | None]:
    """The bootstrap servers of Apache Kafka, or None where it cannot be had."""
    try:
        from tests.broker.oracle.apache import ApacheKafka, libraries

        libraries()
    except BaseException as error:  # pytest's way of skipping is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        print(f"without Apache Kafka: {error}")
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka(Path(folder) / "kafka", brokers)
        kafka.start()
        try:
            yield ",".join("{}:{}".format(*kafka.address(node)) for node in range(brokers))
        finally:
            kafka.stop()


@contextlib.contextmanager
def mock() -> Iterator[str]:
    """librdkafka's mock, which lives in a client and listens on loopback."""
    from confluent_kafka import Producer

    owner = Producer({"test.mock.num.brokers": 1})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)


@contextlib.contextmanager
def same_process() -> Iterator[str]:
    from dwell.broker import Cluster

    with Cluster(brokers=1, topics={TOPIC: 1}) as cluster:
        yield cluster.bootstrap_servers


@contextlib.contextmanager
def own_process() -> Iterator[str]:
    with Host(brokers=1, topics={TOPIC: 1}) as host:
        yield host.bootstrap_servers


SERVERS: list[tuple[str, Callable[[], Any]]] = [
    ("dwell, own process", own_process),
    ("dwell, the client's process", same_process),
    ("librdkafka's mock", mock),
    ("Apache Kafka 4.3.1", apache),
]


def clients(servers: str, **options: Any) -> tuple[Any, Any]:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    with contextlib.suppress(Exception):
        for future in AdminClient({"bootstrap.servers": servers}).create_topics([NewTopic(TOPIC, 1, 1)]).values():
            future.result(10)
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, "log_level": 0, **options})
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "log_level": 0,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 1000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    return producer, consumer


def one_latency(servers: str, count: int = 300) -> tuple[float, float]:
    producer, consumer = clients(servers)
    waits = []
    for number in range(count + 20):
        time.sleep(0.01)
        began = time.perf_counter()
        producer.produce(TOPIC, b"x", partition=0)
        producer.poll(0)
        while True:
            message = consumer.poll(10)
            if message is None:
                raise RuntimeError("nothing came within ten seconds")
            if message.error() is None:
                break
        if number >= 20:
            waits.append((time.perf_counter() - began) * 1000)
        producer.poll(0)
    producer.flush(10)
    consumer.close()
    waits.sort()
    return statistics.median(waits), waits[int(len(waits) * 0.99)]


def latency() -> None:
    rows: list[list[str | float | None]] = []
    for name, server in SERVERS:
        with server() as servers:
            if servers is not None:
                rows.append([name, *one_latency(servers, 60 if "mock" in name else 300)])
    print_table("Produce to consume, milliseconds", ["", "median", "p99"], rows, 2)


def one_rate(servers: str, count: int) -> tuple[float, float]:
    producer, consumer = clients(
        servers, **{"linger.ms": 5, "batch.size": 1_000_000, "queue.buffering.max.messages": 1_000_000}
    )
    producer.produce(TOPIC, VALUE, partition=0)
    producer.flush(30)
    value = os.urandom(1000)
    began = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(TOPIC, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(120)
    produced = time.perf_counter() - began
    assert not left, f"{left} records were not delivered"
    began = time.perf_counter()
    seen = 0
    while seen < count + 1:
        messages = consumer.consume(min(10_000, count + 1 - seen), 10)
        if not messages:
            raise RuntimeError(f"{seen} of {count + 1} records came")
        seen += len(messages)
    consumed = time.perf_counter() - began
    consumer.close()
    return count / produced / 1000, count / consumed / 1000


def rate(count: int = 150_000) -> None:
    rows: list[list[str | float | None]] = []
    for name, server in SERVERS:
        if "mock" in name:
            continue  # it drops what is beyond 5 MB of a partition
        with server() as servers:
            if servers is None:
                continue
            cold = one_rate(servers, count)
            rows.append([name, *cold])
    print_table("Records of 1 kB, acks=all, MB/s (first run of a server)", ["", "produce", "consume"], rows)


# wake and park


def wake(count: int = 500) -> None:
    with Host(brokers=1, topics={TOPIC: 1}) as host:
        rates, produces = [], []
        for number in range(5):
            frame = fetch(offset=number)
            polls = [connect(host.addresses[0]) for _ in range(count)]
            for each in polls:
                each.sendall(frame)
            producer = connect(host.addresses[0])
            time.sleep(0.5)
            poll = select.epoll()
            for each in (*polls, producer):
                poll.register(each.fileno(), select.EPOLLIN | select.EPOLLONESHOT)
            began = time.perf_counter()
            producer.sendall(produce())
            waiting = {each.fileno() for each in polls} | {producer.fileno()}
            while waiting:
                ready = {number for number, _ in poll.poll(10)} & waiting
                if producer.fileno() in ready:
                    produces.append((time.perf_counter() - began) * 1000)
                waiting -= ready
            rates.append(count / (time.perf_counter() - began))
            for each in (*polls, producer):
                each.close()
    rows: list[list[str | float | None]] = [["dwell, own process", max(rates), min(produces)]]
    print_table(f"{count} long polls woken by one produce", ["", "polls/s", "produce, ms"], rows, 1)


def park(count: int = 10_000) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    count = min(count, hard - 500)
    topics = {TOPIC: 1, "one": 1}
    with Host(brokers=1, topics=topics, max_connections=count + 100) as host:
        first = connect(host.addresses[0])
        ask(first, fetch(offset=0, max_wait_ms=1))
        before = host.usage()["memory_kib"]
        frame = fetch(offset=0)
        polls = []
        for _ in range(count):
            connection = connect(host.addresses[0])
            connection.sendall(frame)
            polls.append(connection)
        one = connect(host.addresses[0])
        time.sleep(1)
        each = (host.usage()["memory_kib"] - before) * 1024 / count
        waits = []
        for offset in range(20):
            one.sendall(fetch(offset=offset, topic="one"))
            time.sleep(0.05)
            began = time.perf_counter()
            first.sendall(produce(topic="one"))
            read_frame(one)
            waits.append((time.perf_counter() - began) * 1000)
            read_frame(first)
        woken = statistics.median(waits)
        for connection in polls:
            connection.close()
    rows: list[list[str | float | None]] = [[f"{count:,}", each, woken]]
    print_table("Parked requests, a connection each", ["requests", "bytes each", "one of them woken, ms"], rows, 1)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks broker")
    parser.add_argument("--part", choices=PARTS, action="append")
    chosen = parser.parse_args(arguments).part or PARTS
    for part in chosen:
        globals()[part]()


if __name__ == "__main__":
    main(sys.argv[1:])
