"""A client that sends single frames and reads single answers: what both brokers are asked with."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol

from dwell.broker.wire import Api, read_response, request_frame
from dwell.broker.wire.message.cluster import METADATA
from dwell.broker.wire.message.fetch import LIST_OFFSETS
from dwell.broker.wire.message.topic import CREATE_TOPICS


class Side(Protocol):
    """A cluster under comparison."""

    name: str
    brokers: int

    def address(self, node: int) -> tuple[str, int]: ...

    def freeze(self, node: int) -> None: ...

    def thaw(self, node: int) -> None: ...

    def move_leader(self, topic: str, to: int) -> None:
        """Partition 0 gets another leader; returns when it was asked for."""


class Connection:
    """One connection. `ask` sends a request and waits for its answer."""

    def __init__(self, side: Side, node: int = 0, client_id: str | None = "oracle") -> None:
        self._socket = socket.create_connection(side.address(node), timeout=90)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0
        # How long the last answer took.
        self.waited_ms = 0.0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, api: Api, version: int, request: object) -> None:
        self._correlation_id += 1
        self.send_bytes(request_frame(api, version, self._correlation_id, self._client_id, request))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, api: Api, version: int) -> Any:
        frame = self.receive_frame()
        assert frame is not None, f"the connection was closed instead of an answer to {api.name} {version}"
        correlation_id, response = read_response(api, version, frame)
        assert correlation_id == self._correlation_id
        return response

    def receive_frame(self) -> bytes | None:
        """The next frame without its length; None if the broker closed the connection."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def ask(self, api: Api, version: int, request: object) -> Any:
        began = time.monotonic()
        self.send(api, version, request)
        answer = self.receive(api, version)
        self.waited_ms = (time.monotonic() - began) * 1000
        return answer


def wait_until(words: str, condition: Callable[[], bool]) -> None:
    """Asks again and again: what a cluster does by itself takes its time."""
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, words
        time.sleep(0.02)


def create_topic(side: Side, name: str, assignment: list[list[int]], configs: dict[str, str] | None = None) -> bytes:
    """Creates a topic whose partitions lie on the given nodes, first the leader; returns its id when all know it."""
    r = CREATE_TOPICS.Request
    topic = r.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            r.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in enumerate(assignment)
        ],
        configs=[r.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    with Connection(side) as connection:
        answer = connection.ask(CREATE_TOPICS, 7, r(topics=[topic], timeout_ms=30_000)).topics[0]
        assert answer.error_code == 0, answer
    for node in range(side.brokers):
        wait_for_topic(side, name, assignment, node)
    topic_id: bytes = answer.topic_id
    return topic_id


def wait_for_topic(side: Side, name: str, assignment: list[list[int]], node: int = 0) -> Any:
    """Asks a node until it knows the topic, with all its leaders and in-sync replicas."""
    deadline = time.monotonic() + 60
    with Connection(side, node) as connection:
        while True:
            topic = describe(connection, name)
            if topic.error_code == 0 and len(topic.partitions) == len(assignment):
                states = {each.partition_index: each for each in topic.partitions}
                if all(
                    states[index].leader_id == nodes[0] and sorted(states[index].isr_nodes) == sorted(nodes)
                    for index, nodes in enumerate(assignment)
                ) and all(_leads(side, name, index, nodes[0]) for index, nodes in enumerate(assignment)):
                    return topic
            assert time.monotonic() < deadline, (side.name, topic)
            time.sleep(0.01)


def _leads(side: Side, name: str, partition: int, node: int) -> bool:
    """Whether a node serves a partition: in Kafka a moment after its metadata say so."""
    r = LIST_OFFSETS.Request
    wanted = r.ListOffsetsPartition(partition_index=partition, timestamp=-2)
    request = r(replica_id=-1, topics=[r.ListOffsetsTopic(name=name, partitions=[wanted])])
    with Connection(side, node) as connection:
        error_code: int = connection.ask(LIST_OFFSETS, 9, request).topics[0].partitions[0].error_code
    return error_code == 0


def describe(connection: Connection, name: str) -> Any:
    request = METADATA.Request(
        topics=[METADATA.Request.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    return connection.ask(METADATA, 12, request).topics[0]
