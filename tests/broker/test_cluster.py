"""The cluster: start and end, handles, words, statistics."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import dwell
from dwell.broker import Cluster
from dwell.broker.record.batch import RecordError, make_batch
from dwell.broker.wire import read_response, request_frame
from dwell.broker.wire.message.cluster import METADATA
from dwell.broker.wire.message.fetch import FETCH
from dwell.clock import ManualClock
from dwell.errors import Closed, InvalidArgument, InvalidType
from dwell.purgatory.prometheus import PurgatoryCollector


class Socket:
    """A plain socket that speaks Kafka."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def send(self, api: Any, version: int, **fields: Any) -> None:
        self.socket.sendall(request_frame(api, version, 1, "socket", api.Request(**fields)))

    def receive(self, api: Any, version: int) -> Any:
        size = int.from_bytes(self.read(4), "big")
        return read_response(api, version, self.read(size))[1]

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def close(self) -> None:
        self.socket.close()


def fetch_fields(wait_ms: int) -> dict[str, Any]:
    request = FETCH.Request
    asked = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = [request.FetchTopic(topic="orders", partitions=[asked])]
    return {"max_wait_ms": wait_ms, "min_bytes": 1, "topics": topics}


def test_it_starts_on_free_ports_of_loopback_and_leaves_nothing_behind() -> None:
    before = threading.active_count()
    with Cluster(brokers=3) as cluster:
        addresses = [broker.address for broker in cluster.brokers]
        assert cluster.bootstrap_servers == ",".join(addresses)
        assert all(address.startswith("127.0.0.1:") for address in addresses)
        assert len(set(addresses)) == 3
    assert threading.active_count() == before
    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            Socket(address)
    cluster.close()
    with pytest.raises(Closed):
        cluster.waiting()
    with pytest.raises(Closed):
        cluster.start()


def test_a_port_that_is_taken_is_said_so_and_nothing_is_left_running() -> None:
    with Cluster(brokers=1) as cluster:
        port = int(cluster.bootstrap_servers.split(":")[1])
        with pytest.raises(InvalidArgument, match=str(port)):
            Cluster(brokers=1, ports=[port]).start()


def test_topics_are_there_when_it_has_started() -> None:
    spec = {"partitions": 2, "replication": 2, "min_insync": 2, "configs": {"retention.ms": 5}}
    with Cluster(brokers=2, topics={"orders": spec, "tea": 3, "placed": {"assignment": [[1, 0]]}}) as cluster:
        assert cluster.partition("orders", 1).replicas == (1, 0)
        assert cluster.partition("tea", 2).leader == 0
        assert cluster.partition("placed", 0).leader == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"brokers": 0}, "brokers"),
        ({"topics": {"orders": {"partition": 3}}}, "partition"),
        ({"topics": {"a b": 3}}, "a b"),
        ({"topics": {"orders": {"replication": 5}}}, "replication factor 5"),
        ({"topics": {"orders": {"configs": {"no.such": 1}}}}, "no.such"),
        ({"configs": {"min.insync.replica": 1}}, "min.insync.replicas"),
        ({"topics": ["orders"]}, "must be a dict"),
        ({"topics": {"orders": True}}, "number of partitions"),
        ({"clock": 5}, "now_ms"),
        ({"racks": ["a"]}, "racks"),
        ({"ports": [1]}, "ports"),
        ({"ports": [70_000, 0, 0]}, "ports are 0 to 65,535"),
        ({"replication": 0}, "default.replication.factor"),
        ({"real": ["hope"]}, "hope"),
    ],
)
def test_what_cannot_be_is_said_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidArgument, InvalidType), match=words):
        Cluster(**{"brokers": 3} | options).start()


def test_records_without_a_client() -> None:
    with Cluster(brokers=3, topics={"orders": 3}) as cluster:
        first = cluster.produce("orders", "tea", key="k", headers=[("h", b"1")], timestamp_ms=5)
        assert (first.key, first.value, first.headers, first.timestamp_ms) == (b"k", b"tea", (("h", b"1"),), 5)
        again = cluster.produce("orders", b"milk", key=b"k")
        assert (again.partition, again.offset) == (first.partition, 1)
        places = [cluster.produce("orders", None).partition for _ in range(2)]
        assert first.partition not in places
        assert [record.value for record in cluster.partition("orders", first.partition).records()] == [b"tea", b"milk"]
        assert len(cluster.wait_for_records("orders", 4)) == 4
        with pytest.raises(TimeoutError, match="'orders' has 4 of 5 records"):
            cluster.wait_for_records("orders", 5, timeout_s=0.05)
        with pytest.raises(InvalidArgument, match="no topic 'none'"):
            cluster.records("none")
        with pytest.raises(InvalidType, match="value must be bytes"):
            cluster.produce("orders", 5)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="timestamp_ms"):
            cluster.produce("orders", b"x", timestamp_ms=2**70)


def test_records_need_a_leader() -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster:
        cluster.broker(0).kill()
        with pytest.raises(InvalidArgument, match="orders-0 has no leader"):
            cluster.produce("orders", b"tea")


def test_an_address_with_colons_is_put_in_brackets() -> None:
    with Cluster(brokers=1, advertised_host="::1") as cluster:
        assert cluster.bootstrap_servers.startswith("[::1]:")


def test_topics_are_created_grown_and_deleted() -> None:
    with Cluster(brokers=2, auto_create=False) as cluster:
        cluster.create_topic("tea", 2, replication=2, min_insync=2)
        cluster.add_partitions("tea", 3)
        assert cluster.partition("tea", 2).leader >= 0
        with pytest.raises(InvalidArgument, match="3 partitions already"):
            cluster.add_partitions("tea", 3)
        with pytest.raises(InvalidArgument, match="already exists"):
            cluster.create_topic("tea")
        handle = cluster.partition("tea", 0)
        cluster.delete_topic("tea")
        with pytest.raises(InvalidArgument, match="was deleted"):
            _ = handle.leader
        with pytest.raises(InvalidArgument, match="no topic"):
            cluster.produce("tea", b"x")


def test_a_partition_tells_about_itself() -> None:
    with Cluster(brokers=3, topics={"orders": {"replication": 3}}) as cluster:
        partition = cluster.partition("orders", 0)
        cluster.broker(1).freeze()
        assert cluster.broker(1).is_frozen
        cluster.produce("orders", b"tea")
        assert (partition.leader, partition.epoch, partition.isr, partition.replicas) == (0, 0, (0, 1, 2), (0, 1, 2))
        assert (partition.high_watermark, partition.last_stable, partition.log_start) == (0, 0, 0)
        assert [partition.log_end(replica) for replica in (0, 1, 2)] == [1, 0, 1]
        cluster.broker(1).thaw()
        assert partition.high_watermark == partition.log_end() == 1
        partition.move_leader(2)
        assert (partition.leader, partition.epoch) == (2, 1)
        partition.elect()
        assert partition.leader == 0
        cluster.broker(2).kill()
        with pytest.raises(InvalidArgument, match="in sync are"):
            partition.move_leader(2)
        with pytest.raises(InvalidArgument, match="no partition orders-7"):
            cluster.partition("orders", 7)
        with pytest.raises(InvalidArgument, match="no broker 3"):
            cluster.broker(3)


def test_a_killed_broker_refuses_and_a_restarted_one_has_its_port_again() -> None:
    with Cluster(brokers=2, topics={"orders": {"replication": 2}}) as cluster:
        address = cluster.broker(0).address
        client = Socket(address)
        cluster.broker(0).kill()
        assert not cluster.broker(0).is_alive
        with pytest.raises((EOFError, ConnectionResetError)):
            client.read(1)
        with pytest.raises(ConnectionRefusedError):
            Socket(address)
        cluster.broker(0).restart()
        again = Socket(address)
        again.send(METADATA, 4, topics=[])
        assert len(again.receive(METADATA, 4).brokers) == 2
        again.close()
        cluster.broker(0).stop()
        with pytest.raises(ConnectionRefusedError):
            Socket(address)
        cluster.broker(0).restart()
        client.close()


def test_what_waits_can_be_waited_for_from_a_thread_and_from_a_coroutine() -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster:
        client = Socket(cluster.broker(0).address)
        client.send(FETCH, 11, **fetch_fields(60_000))
        waiting = cluster.wait_for("fetch", topic="orders", client_id="socket", broker=0)
        assert (waiting.api, waiting.keys, waiting.unmet) == ("fetch", ("orders-0",), "0 of 1 bytes in orders-0 from 0")
        assert asyncio.run(cluster.until("fetch")).request == waiting.request
        assert [one.request for one in cluster.waiting()] == [waiting.request]
        assert cluster.waiting("produce") == []
        with pytest.raises(TimeoutError, match="no such produce is parked; waiting: fetch v11 of socket"):
            cluster.wait_for("produce", timeout_s=0.05)
        with pytest.raises(TimeoutError):
            asyncio.run(cluster.until("produce", timeout_s=0.05))
        with pytest.raises(InvalidArgument, match="replica"):
            cluster.waiting("replica")
        cluster.produce("orders", b"tea")
        assert client.receive(FETCH, 11).responses[0].partitions[0].high_watermark == 1
        assert cluster.waiting() == []
        client.close()


def test_who_waits_while_the_cluster_is_closed_is_told_at_once() -> None:
    cluster = Cluster(1).start()
    told: list[BaseException] = []

    def wait() -> None:
        try:
            cluster.wait_for("produce", timeout_s=600)
        except Closed as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not cluster.call(lambda host: host.is_waited_for):
        pass
    cluster.close()
    thread.join(60)
    assert [str(error) for error in told] == ["the cluster was closed meanwhile"]


def test_the_clusters_own_thread_cannot_wait() -> None:
    with Cluster(1) as cluster, pytest.raises(InvalidArgument, match="own thread"):
        cluster.call(lambda _host: cluster.wait_for("produce"))


def test_records_that_cannot_be_read_are_said_to_be_so_to_whom_waits_for_them() -> None:
    with Cluster(1, topics={"orders": 1}) as cluster:
        garbage = make_batch(b"garbage!", count=1, base_timestamp=0, max_timestamp=0)
        cluster.call(lambda host: host.brokers[0].partitions["orders", 0].append(garbage))
        with pytest.raises(RecordError, match="a record of"):
            cluster.wait_for_records("orders", 1, timeout_s=600)


def test_a_client_that_closes_while_its_request_waits_is_noticed() -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster:
        client = Socket(cluster.broker(0).address)
        client.send(FETCH, 11, **fetch_fields(600_000))
        cluster.wait_for("fetch")
        client.close()
        found, forget = cluster._when(lambda host: not host.parked or None)
        for _ in range(1_000):
            cluster.call(lambda host: host.poke())
            if found.done():
                break
            threading.Event().wait(0.01)
        assert found.done()
        forget()


def test_a_client_that_closes_while_it_is_not_read_from_is_noticed() -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster:
        client = Socket(cluster.broker(0).address)
        client.send(FETCH, 11, **fetch_fields(600_000))
        cluster.wait_for("fetch")
        # More requests than are read ahead: reading stops, so the end of the stream is not seen by reading.
        frame = request_frame(FETCH, 11, 1, "socket", FETCH.Request(**fetch_fields(0)))
        client.socket.sendall(frame * (2 * 1024 * 1024 // len(frame)))
        client.close()
        for _ in range(1_000):
            if not cluster.waiting():
                break
            threading.Event().wait(0.01)
        assert cluster.waiting() == []


def test_a_thousand_slow_senders_harm_nobody() -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster:
        slow = [Socket(cluster.broker(0).address) for _ in range(1_000)]
        for one in slow:
            one.socket.sendall(b"\0\0\1")
        client = Socket(cluster.broker(0).address)
        for _ in range(20):
            client.send(METADATA, 4, topics=[])
            assert len(client.receive(METADATA, 4).brokers) == 1
            for one in slow[::10]:
                one.socket.sendall(b"\0")
        assert cluster.statistics().connections == 1_001
        for one in (*slow, client):
            one.close()


def test_malformed_bytes_on_a_socket_end_that_socket_only() -> None:
    with Cluster(brokers=1) as cluster:
        good, bad = Socket(cluster.broker(0).address), Socket(cluster.broker(0).address)
        bad.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises((EOFError, ConnectionResetError)):
            bad.read(1)
        good.send(METADATA, 4, topics=[])
        assert len(good.receive(METADATA, 4).brokers) == 1
        good.close()
        bad.close()


def test_no_more_connections_than_allowed() -> None:
    with Cluster(brokers=1, max_connections=2) as cluster:
        clients = [Socket(cluster.broker(0).address) for _ in range(2)]
        for client in clients:
            client.send(METADATA, 4, topics=[])
            client.receive(METADATA, 4)
        third = Socket(cluster.broker(0).address)
        with pytest.raises((EOFError, ConnectionResetError)):
            third.read(1)
        for client in (*clients, third):
            client.close()


def test_time_moves_only_by_advance() -> None:
    with Cluster(brokers=1, clock=ManualClock(), real=(), topics={"orders": 1}) as cluster:
        client = Socket(cluster.broker(0).address)
        client.send(FETCH, 11, **fetch_fields(60_000))
        cluster.wait_for("fetch")
        assert cluster.advance(59_999) == []
        (expired,) = cluster.advance(1)
        assert (expired.kind, expired.since_ms, expired.left_ms) == ("fetch", 60_000, 0)
        client.receive(FETCH, 11)
        client.close()
        with pytest.raises(InvalidArgument, match="negative"):
            cluster.advance(-1)
    with Cluster(brokers=1) as real, pytest.raises(InvalidArgument, match="ManualClock"):
        real.advance(1)


def test_the_controller_can_be_late_and_can_stand_still() -> None:
    with Cluster(brokers=2, clock=ManualClock(), topics={"orders": {"replication": 2}}) as cluster:
        assert cluster.controller.id == 0
        cluster.controller.delay(50)
        cluster.partition("orders", 0).move_leader(1)
        assert cluster.partition("orders", 0).leader == 0
        cluster.advance(50)
        assert cluster.partition("orders", 0).leader == 1
        cluster.controller.delay(0)
        cluster.controller.pause()
        cluster.partition("orders", 0).move_leader(0)
        assert cluster.partition("orders", 0).leader == 1
        cluster.controller.resume()
        assert cluster.partition("orders", 0).leader == 0
        with pytest.raises(InvalidArgument, match="negative"):
            cluster.broker(0).lag(-1)


def test_requests_and_timelines_of_the_past() -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster:
        client = Socket(cluster.broker(0).address)
        client.send(METADATA, 4, topics=[])
        client.receive(METADATA, 4)
        (line,) = cluster.requests("metadata", client_id="socket")
        assert str(line).startswith("metadata v4 of socket, broker 0, answered after ")
        assert [step.words for step in cluster.timeline(line).steps] == ["received", "answered"]
        assert cluster.requests("produce") == []
        with pytest.raises(InvalidArgument, match="not among the last"):
            cluster.timeline(77)
        client.close()


def test_figures_for_top_and_for_prometheus() -> None:
    with Cluster(brokers=2, topics={"orders": {"replication": 2}}) as cluster:
        cluster.produce("orders", b"tea")
        names = [purgatory.name for purgatory in cluster.purgatories]
        assert "broker-0-produce" in names
        assert len(names) == len(set(names)) == 2 * 6
        with dwell.serve_statistics(*cluster.purgatories) as server:
            with urllib.request.urlopen(server.url) as answer:
                served = json.load(answer)
            assert {source["name"] for source in served["sources"]} == set(names)
        registry = CollectorRegistry()
        registry.register(PurgatoryCollector(*cluster.purgatories))
        assert b'dwell_purgatory_delayed{purgatory="broker-1-fetch"} 0.0' in generate_latest(registry)
        statistics = cluster.statistics()
        assert (statistics.brokers_up, statistics.topics, statistics.partitions) == (2, 1, 1)
        assert statistics.log_bytes == 71
        cluster.broker(1).kill()
        assert cluster.statistics().under_replicated_partitions == 1


def test_errors_inside_reach_the_handler() -> None:
    errors: list[BaseException] = []
    with Cluster(brokers=1, on_error=lambda error, source: errors.append(error)) as cluster:
        cluster.call(lambda host: host.agenda.put(lambda: 1 / 0))
    assert isinstance(errors[0], ZeroDivisionError)


def test_importing_the_broker_loads_no_client_and_no_spark() -> None:
    code = (
        "import sys, dwell.broker; print(sorted({'confluent_kafka', 'aiokafka', 'kafka', 'pyspark', 'numpy', 'kio'}"
        " & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    light = "import sys, dwell; print('dwell.broker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_forked_child_keeps_no_port_open() -> None:
    code = """
import os, socket
from dwell.broker import Cluster
cluster = Cluster(brokers=1).start()
port = int(cluster.bootstrap_servers.split(":")[1])
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.read(reader, 1)
    os._exit(0)
cluster.close()
try:
    socket.create_connection(("127.0.0.1", port), timeout=5)
    print("open")
except ConnectionRefusedError:
    print("refused")
os.write(writer, b"x")
os.waitpid(child, 0)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "refused\n"
