"""A client of the core without sockets: requests in, decoded answers out."""

from __future__ import annotations

from typing import Any

from dwell.broker.host import Host
from dwell.broker.option import Options
from dwell.broker.record.record import Record, write_batch
from dwell.broker.replica.partition import Partition
from dwell.broker.topic import TopicSpec, create
from dwell.broker.wire import Api, Error, read_response, request_frame
from dwell.broker.wire.message.fetch import FETCH, LIST_OFFSETS
from dwell.broker.wire.message.produce import PRODUCE
from dwell.clock import ManualClock


def make_host(brokers: int = 3, topics: dict[str, Any] | None = None, **options: Any) -> Host:
    """A core on a manual clock. What goes wrong inside is raised at once."""

    def fail(error: BaseException, source: object) -> None:
        raise error

    host = Host(Options(brokers=brokers, **options), clock=ManualClock(), on_error=fail)
    for name, spec in (topics or {}).items():
        create(host, TopicSpec.of(name, spec))
    host.agenda.drain()
    return host


def led(host: Host, topic: str = "orders", index: int = 0) -> Partition:
    """A partition at its leader."""
    image = host.controller.image.partition(topic, index)
    assert image is not None
    return host.brokers[image.leader].partitions[topic, index]


def records(*values: bytes, **options: Any) -> bytes:
    """One batch."""
    return write_batch(
        [Record(offset=0, timestamp_ms=1_000, key=None, value=value) for value in values], **options
    ).data


class Client:
    """One connection. `call` expects the answer at once, `send` leaves it for `take`."""

    def __init__(self, host: Host, broker: int = 0, client_id: str = "test") -> None:
        self.host = host
        self.connection = host.connect(broker)
        self.client_id = client_id
        self._sent: list[tuple[int, Api, int]] = []
        self._correlation = 0
        self._received: list[bytes] = []

    def send(self, api: Api, version: int, request: object) -> int:
        self._correlation += 1
        self._sent.append((self._correlation, api, version))
        frame = request_frame(api, version, self._correlation, self.client_id, request)
        self._received += self.host.receive(self.connection, frame)
        return self._correlation

    def take(self) -> list[Any]:
        """The answers that came since the last call; their order is that of the requests."""
        received, self._received = [*self._received, *self.connection.take()], []
        answers = []
        for frame in received:
            correlation, api, version = self._sent.pop(0)
            found, answer = read_response(api, version, frame[4:])
            assert found == correlation
            answers.append(answer)
        return answers

    def unanswered(self) -> None:
        """The last request gets no answer."""
        self._sent.pop()

    def call(self, api: Api, version: int | None = None, **fields: Any) -> Any:
        version = api.versions.last if version is None else version
        self.send(api, version, api.Request(**fields))
        (answer,) = self.take()
        return answer

    # The usual ones

    def produce(
        self,
        batch: bytes,
        topic: str = "orders",
        index: int = 0,
        *,
        acks: int = -1,
        timeout_ms: int = 1_000,
        version: int = 9,
    ) -> list[Any]:
        """Send a produce; the partition's answer, if it is there already."""
        request = PRODUCE.Request
        data = request.PartitionProduceData(index=index, records=batch)
        topics = [request.TopicProduceData(name=topic, partition_data=[data])]
        self.send(PRODUCE, version, request(acks=acks, timeout_ms=timeout_ms, topic_data=topics))
        return self.produced()

    def produced(self) -> list[Any]:
        return [answer.responses[0].partition_responses[0] for answer in self.take()]

    def fetch(
        self,
        offset: int,
        topic: str = "orders",
        index: int = 0,
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 2**20,
        version: int = 12,
        **partition: Any,
    ) -> list[Any]:
        """Send a fetch; the partition's answer, if it is there already."""
        request = FETCH.Request
        asked = request.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **partition)
        topics = [request.FetchTopic(topic=topic, partitions=[asked])]
        self.send(FETCH, version, request(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics))
        return self.fetched()

    def fetched(self) -> list[Any]:
        return [answer.responses[0].partitions[0] for answer in self.take()]

    def list_offsets(
        self, timestamp: int, topic: str = "orders", index: int = 0, version: int = 9, **options: Any
    ) -> Any:
        request = LIST_OFFSETS.Request
        asked = request.ListOffsetsPartition(partition_index=index, timestamp=timestamp, **options)
        topics = [request.ListOffsetsTopic(name=topic, partitions=[asked])]
        answer = self.call(LIST_OFFSETS, version, replica_id=-1, topics=topics)
        return answer.topics[0].partitions[0]


def error(answer: Any) -> str:
    """The name of an answer's error."""
    return Error(answer.error_code).name
