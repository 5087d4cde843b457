"""What both brokers are asked: one script per API, with good and bad input, run in every version.

A script asks through `Run.ask`, which keeps the answer under a label. Topics carry the version in their name, so that
the versions of one API do not meet each other's topics.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

from dwell.broker.record.batch import Batch
from dwell.broker.record.checksum import crc32c
from dwell.broker.record.record import Record, write_batch
from dwell.broker.wire import Api
from dwell.broker.wire.message.cluster import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, METADATA
from dwell.broker.wire.message.fetch import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from dwell.broker.wire.message.produce import INIT_PRODUCER_ID, PRODUCE
from dwell.broker.wire.message.replica import ELECT_LEADERS
from dwell.broker.wire.message.topic import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_RECORDS, DELETE_TOPICS
from tests.broker.oracle.answer import plain
from tests.broker.oracle.client import Connection, Side, create_topic, wait_for_topic

UNKNOWN_ID = bytes(range(1, 17))
# A time all records of the scripts count from: 2026-01-01.
NOW_MS = 1_767_225_600_000


class Run:
    """A script on one side: its connection, its topics, the answers it got."""

    def __init__(self, side: Side, version: int, api: Api) -> None:
        self.side = side
        self.version = version
        self.api = api
        self.connection = Connection(side)
        self.topic_ids: dict[bytes, str] = {}
        self.answers: dict[str, Any] = {}

    def topic(self, name: str, assignment: list[list[int]] | None = None, **configs: str) -> tuple[str, bytes]:
        """Creates `name` for this API and version; returns its full name and its id."""
        full = f"{self.api.name}-v{self.version}-{name}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        topic_id = create_topic(self.side, full, assignment or [[0]], named)
        self.topic_ids[topic_id] = full
        return full, topic_id

    def ask(self, label: str, request: Any) -> Any:
        answer = self.connection.ask(self.api, self.version, request)
        self.answers[label] = plain(self.api.response, self.version, answer, self.topic_ids)
        return answer

    def produce(self, topic: str, records: bytes, partition: int = 0, acks: int = -1) -> Any:
        """Appends without keeping the answer; raises if it is an error."""
        r = PRODUCE.Request
        data = r.TopicProduceData(name=topic, partition_data=[r.PartitionProduceData(index=partition, records=records)])
        answer = self.connection.ask(PRODUCE, 12, r(acks=acks, timeout_ms=10_000, topic_data=[data]))
        result = answer.responses[0].partition_responses[0]
        assert result.error_code == 0, result
        return result


def batch(*values: bytes, at: int = 0, **options: int) -> Batch:
    """A batch of values, one millisecond apart."""
    return write_batch(
        [
            Record(offset=0, timestamp_ms=NOW_MS + at + index, key=b"k", value=value)
            for index, value in enumerate(values)
        ],
        **options,
    )


def patched(data: bytes, at: int, piece: bytes) -> bytes:
    """A batch with other bytes at one place and a checksum that fits."""
    raw = bytearray(data)
    raw[at : at + len(piece)] = piece
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    return bytes(raw)


def metadata(run: Run) -> None:
    name, topic_id = run.topic("known", [[0], [0]])
    r, version = METADATA.Request, run.version

    def one(**fields: Any) -> Any:
        return r(topics=[r.MetadataRequestTopic(**fields)], allow_auto_topic_creation=False)

    run.ask("a known topic", one(name=name))
    if version >= 1:
        run.ask("no topics", r(topics=[]))
    if version >= 4:
        run.ask("an unknown topic", one(name="nowhere"))
        run.ask("a name that is none", one(name="not/a/name"))
        run.ask("an empty name", one(name=""))
        both = one(name="nowhere")
        both.topics += one(name=name).topics
        run.ask("two topics", both)
        run.ask(
            "automatic creation",
            r(topics=[r.MetadataRequestTopic(name=f"{name}-made")], allow_auto_topic_creation=True),
        )
        wait_for_topic(run.side, f"{name}-made", [[0]])
    if version >= 8:
        request = one(name=name)
        request.include_topic_authorized_operations = True
        run.ask("operations of a topic", request)
    if 8 <= version <= 10:
        request = one(name=name)
        request.include_cluster_authorized_operations = True
        run.ask("operations of the cluster", request)
    if version >= 12:
        run.ask("a known id", one(name=None, topic_id=topic_id))
        run.ask("an unknown id", one(name=None, topic_id=UNKNOWN_ID))


def describe_cluster(run: Run) -> None:
    r = DESCRIBE_CLUSTER.Request
    run.ask("brokers", r())
    run.ask("with operations", r(include_cluster_authorized_operations=True))
    if run.version >= 1:
        run.ask("controllers", r(endpoint_type=2))
        run.ask("neither", r(endpoint_type=3))
    if run.version >= 2:
        run.ask("with fenced brokers", r(include_fenced_brokers=True))


def describe_topic_partitions(run: Run) -> None:
    name, _ = run.topic("known", [[0], [0], [0]])
    r = DESCRIBE_TOPIC_PARTITIONS.Request
    known, nowhere = r.TopicRequest(name=name), r.TopicRequest(name="nowhere")
    run.ask("a known topic", r(topics=[known]))
    run.ask("an unknown topic", r(topics=[nowhere]))
    run.ask("two of three partitions", r(topics=[known], response_partition_limit=2))
    run.ask("the rest", r(topics=[known], cursor=r.Cursor(topic_name=name, partition_index=2)))
    run.ask("a cursor beyond the end", r(topics=[known], cursor=r.Cursor(topic_name=name, partition_index=9)))
    run.ask("a negative cursor", r(topics=[known], cursor=r.Cursor(topic_name=name, partition_index=-1)))
    run.ask("a cursor at another topic", r(topics=[known], cursor=r.Cursor(topic_name="zzz", partition_index=0)))
    run.ask("sorted", r(topics=[nowhere, known]))


def create_topics(run: Run) -> None:
    r = CREATE_TOPICS.Request
    prefix = f"create-v{run.version}"

    def one(name: str, partitions: int = 1, replication: int = 1, **fields: Any) -> Any:
        topic = r.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication, **fields)
        return r(topics=[topic], timeout_ms=10_000)

    def placed(*assignment: list[int], first: int = 0) -> list[Any]:
        return [
            r.CreatableReplicaAssignment(partition_index=first + index, broker_ids=nodes)
            for index, nodes in enumerate(assignment)
        ]

    def config(name: str, value: str | None) -> list[Any]:
        return [r.CreatableTopicConfig(name=name, value=value)]

    run.ask("a topic", one(f"{prefix}-a", 3))
    wait_for_topic(run.side, f"{prefix}-a", [[0]] * 3)
    run.ask("the same again", one(f"{prefix}-a"))
    run.ask("a name that is none", one("not/a/name"))
    run.ask("an empty name", one(""))
    run.ask("a name too long", one("x" * 250))
    run.ask("a dot as name", one("."))
    run.ask("no partitions", one(f"{prefix}-b", 0))
    run.ask("negative partitions", one(f"{prefix}-b", -2))
    run.ask("no replicas", one(f"{prefix}-b", 1, 0))
    run.ask("more replicas than brokers", one(f"{prefix}-b", 1, 2))
    run.ask("assignment and count", one(f"{prefix}-b", 1, 1, assignments=placed([0])))
    run.ask("an assignment", one(f"{prefix}-c", -1, -1, assignments=placed([0], [0])))
    run.ask("an unknown broker", one(f"{prefix}-b", -1, -1, assignments=placed([7])))
    run.ask("a broker twice", one(f"{prefix}-b", -1, -1, assignments=placed([0, 0])))
    run.ask("no broker", one(f"{prefix}-b", -1, -1, assignments=placed([])))
    run.ask("partitions from 1", one(f"{prefix}-b", -1, -1, assignments=placed([0], first=1)))
    run.ask("an unknown config", one(f"{prefix}-b", configs=config("no.such.config", "1")))
    run.ask("a config of a wrong type", one(f"{prefix}-b", configs=config("retention.ms", "soon")))
    run.ask("a config", one(f"{prefix}-d", configs=config("retention.ms", "1000")))
    run.ask("a config without value", one(f"{prefix}-b", configs=config("retention.ms", None)))
    if run.version >= 4:
        run.ask("defaults", one(f"{prefix}-e", -1, -1))
    request = one(f"{prefix}-f")
    request.validate_only = True
    run.ask("only validated", request)
    run.ask("and not made", one(f"{prefix}-f"))
    run.ask("a dot for an underscore", one(f"{prefix}.f".replace("-", ".").replace(".f", "_f")))
    run.ask("the same but for that", one(f"{prefix}.f".replace("-", ".")))
    request = one(f"{prefix}-g")
    request.topics *= 2
    run.ask("a name twice", request)
    request = one(f"{prefix}-h")
    request.topics += one("not/a/name").topics
    run.ask("one good, one bad", request)


def delete_topics(run: Run) -> None:
    r, version = DELETE_TOPICS.Request, run.version
    names = [run.topic(each)[0] for each in ("a", "b")]

    def by_name(*topics: str) -> Any:
        if version >= 6:
            return r(topics=[r.DeleteTopicState(name=name) for name in topics], timeout_ms=10_000)
        return r(topic_names=list(topics), timeout_ms=10_000)

    run.ask("two topics", by_name(*names))
    run.ask("again", by_name(names[0]))
    run.ask("an unknown topic", by_name("nowhere"))
    run.ask("nothing", by_name())
    if version >= 6:
        _, topic_id = run.topic("c")
        run.ask("an unknown id", r(topics=[r.DeleteTopicState(name=None, topic_id=UNKNOWN_ID)], timeout_ms=10_000))
        run.ask("a known id", r(topics=[r.DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=10_000))


def create_partitions(run: Run) -> None:
    r = CREATE_PARTITIONS.Request
    name, _ = run.topic("a")

    def one(topic: str, count: int, assignment: list[list[int]] | None = None, validate_only: bool = False) -> Any:
        placed = assignment and [r.CreatePartitionsAssignment(broker_ids=nodes) for nodes in assignment]
        wanted = r.CreatePartitionsTopic(name=topic, count=count, assignments=placed)
        return r(topics=[wanted], timeout_ms=10_000, validate_only=validate_only)

    run.ask("only validated", one(name, 3, validate_only=True))
    run.ask("three", one(name, 3))
    wait_for_topic(run.side, name, [[0]] * 3)
    run.ask("as many as there are", one(name, 3))
    run.ask("fewer", one(name, 2))
    run.ask("none", one(name, 0))
    run.ask("negative", one(name, -1))
    run.ask("an unknown topic", one("nowhere", 3))
    run.ask("placed", one(name, 4, [[0]]))
    wait_for_topic(run.side, name, [[0]] * 4)
    run.ask("placed wrongly", one(name, 5, [[7]]))
    run.ask("too few places", one(name, 7, [[0]]))
    run.ask("more replicas than the others", one(name, 5, [[0, 1]]))
    request = one(name, 6)
    request.topics *= 2
    run.ask("a name twice", request)


def produce(run: Run) -> None:
    name, _ = run.topic("a", max_message_bytes="2000")
    compacted, _ = run.topic("compacted", cleanup_policy="compact")
    r = PRODUCE.Request

    def one(records: bytes, partition: int = 0, acks: int = -1, topic: str = name) -> Any:
        found = {known: each for each, known in run.topic_ids.items()}
        data = r.TopicProduceData(
            name=topic,
            topic_id=found.get(topic, UNKNOWN_ID),
            partition_data=[r.PartitionProduceData(index=partition, records=records)],
        )
        return r(acks=acks, timeout_ms=10_000, topic_data=[data])

    good = batch(b"a", b"b").data
    run.ask("acks all", one(good))
    run.ask("acks 1", one(good, acks=1))
    run.ask("acks 2", one(good, acks=2))
    run.ask("an unknown topic", one(good, topic="nowhere"))
    run.ask("an unknown partition", one(good, partition=5))
    run.ask("a negative partition", one(good, partition=-1))
    run.ask("no records", one(b""))
    # Null records are left out: Kafka 4.3.1 fails inside and never answers them.
    run.ask("a cut batch", one(good[:-1]))
    run.ask("a wrong checksum", one(good[:-1] + b"!"))
    run.ask("two batches", one(good * 2))
    run.ask("format 1", one(patched(good, 16, b"\1")))
    run.ask("format 3", one(patched(good, 16, b"\3")))
    run.ask("a short length", one(patched(good, 8, struct.pack(">i", 13))))
    run.ask("a negative length", one(patched(good, 8, struct.pack(">i", -1))))
    run.ask("a base offset", one(batch(b"a", base_offset=7).data))
    run.ask("too large", one(batch(bytes(3000)).data))
    run.ask("a control batch", one(batch(b"a", attributes=1 << 5).data))
    run.ask("a wrong count", one(patched(good, 57, struct.pack(">i", 1))))
    run.ask("no count", one(patched(good, 57, struct.pack(">i", 0))))
    run.ask("offsets backwards", one(patched(good, 23, struct.pack(">i", -1))))
    run.ask("compression 5", one(patched(good, 21, b"\0\5")))
    for number, codec in enumerate(("gzip", "snappy", "lz4", "zstd"), 1):
        run.ask(codec, one(batch(b"a", b"b", compression=number).data))
    keyless = write_batch([Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"a")])
    run.ask("no key in a compacted topic", one(keyless.data, topic=compacted))
    run.ask("a key in a compacted topic", one(good, topic=compacted))
    run.ask("no topics", r(acks=1, timeout_ms=1000))
    twice = one(good)
    twice.topic_data += one(good, topic=compacted).topic_data + one(good, topic="nowhere").topic_data
    run.ask("two good topics and a bad one", twice)


def idempotence(run: Run) -> None:
    """Produce again, with sequences: what a retry after a lost answer looks like."""
    name, topic_id = run.topic("sequences")
    r = PRODUCE.Request

    def send(label: str, sequence: int, count: int = 1, producer: int = 4711, epoch: int = 0) -> None:
        records = batch(*[b"v"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence).data
        data = r.TopicProduceData(
            name=name, topic_id=topic_id, partition_data=[r.PartitionProduceData(index=0, records=records)]
        )
        run.ask(label, r(acks=-1, timeout_ms=10_000, topic_data=[data]))

    send("sequence 0", 0, 3)
    send("sequence 0 again", 0, 3)
    send("sequence 3", 3)
    send("sequence 5, a gap", 5)
    send("sequence 0 of other length", 0, 2)
    for sequence in range(4, 10):
        send(f"sequence {sequence}", sequence)
    send("sequence 5, the fifth last", 5)
    send("sequence 4, the sixth last", 4)
    send("a new epoch at 3", 3, epoch=1)
    send("a new epoch at 0", 0, epoch=1)
    send("the old epoch", 10, epoch=0)
    send("a new producer at 7", 7, producer=4712)
    send("the last sequence", 2**31 - 1, producer=4713)
    send("sequence 0 after the last", 0, producer=4713)
    send("across the wrap", 2**31 - 2, 3, producer=4714)
    send("after the wrap", 1, producer=4714)
    send("no sequence", -1)
    send("no epoch", 11, epoch=-1)


def init_producer_id(run: Run) -> None:
    r = INIT_PRODUCER_ID.Request
    # Kafka fetches its first block of ids in the background.
    while run.connection.ask(INIT_PRODUCER_ID, run.version, r(transactional_id=None)).error_code != 0:
        time.sleep(0.01)
    run.ask("no transaction", r(transactional_id=None, transaction_timeout_ms=1000))
    run.ask("no transaction, no timeout", r(transactional_id=None, transaction_timeout_ms=0))
    run.ask("an empty transactional id", r(transactional_id="", transaction_timeout_ms=1000))
    if run.version >= 3:
        run.ask("an id without epoch", r(transactional_id=None, producer_id=5, transaction_timeout_ms=1000))
        run.ask("an epoch without id", r(transactional_id=None, producer_epoch=5, transaction_timeout_ms=1000))
        request = r(transactional_id=None, producer_id=5, producer_epoch=5, transaction_timeout_ms=1000)
        run.ask("both, without transaction", request)


def fetch(run: Run) -> None:
    name, topic_id = run.topic("a", [[0], [0]])
    for first in range(0, 6, 2):
        run.produce(name, batch(b"%d" % first, b"%d" % (first + 1), at=first).data)
    r, version = FETCH.Request, run.version

    def one(topic: str = name, offset: int = 0, partition: int = 0, **fields: Any) -> Any:
        details = {key: fields.pop(key) for key in ("current_leader_epoch", "partition_max_bytes") if key in fields}
        details.setdefault("partition_max_bytes", 1_000_000)
        wanted = r.FetchPartition(partition=partition, fetch_offset=offset, **details)
        named = r.FetchTopic(topic=topic, topic_id=topic_id if topic == name else UNKNOWN_ID, partitions=[wanted])
        return r(topics=[named], max_wait_ms=fields.pop("max_wait_ms", 0), min_bytes=1, **fields)

    run.ask("all", one())
    run.ask("from the middle of a batch", one(offset=3))
    run.ask("at the end", one(offset=6))
    run.ask("beyond the end", one(offset=7))
    run.ask("a negative offset", one(offset=-1))
    run.ask("an empty partition", one(partition=1))
    run.ask("an unknown partition", one(partition=9))
    run.ask("an unknown topic", one("nowhere"))
    run.ask("one byte of a partition", one(partition_max_bytes=1))
    run.ask("one byte in all", one(max_bytes=1))
    run.ask("no bytes of a partition", one(partition_max_bytes=0))
    run.ask("committed only", one(isolation_level=1))
    run.ask("no topics", r(max_wait_ms=0))
    size = len(batch(b"0", b"1").data)
    run.ask("two batches of a partition", one(partition_max_bytes=2 * size))
    run.ask("a batch and a half", one(partition_max_bytes=size + size // 2))
    both = one()
    both.topics[0].partitions += one(partition=1).topics[0].partitions + one(partition=9).topics[0].partitions
    run.ask("two partitions and an unknown one", both)
    if version >= 9:
        run.ask("the current epoch", one(current_leader_epoch=0))
        run.ask("a future epoch", one(current_leader_epoch=5))
        run.ask("an epoch beyond the end", one(current_leader_epoch=0, offset=9))
    if version >= 12:
        request = one(offset=6)
        request.topics[0].partitions[0].last_fetched_epoch = 0
        run.ask("the last epoch", request)
        request.topics[0].partitions[0].last_fetched_epoch = 3
        run.ask("a last epoch that never was", request)
    if version >= 7:
        fetch_session(run, one)


def fetch_session(run: Run, one: Callable[..., Any]) -> None:
    r = FETCH.Request
    answer = run.ask("a new session", one(session_id=0, session_epoch=0))
    session = answer.session_id
    run.ask("nothing new", r(session_id=session, session_epoch=1, max_wait_ms=0, min_bytes=1))
    run.ask("the epoch again", r(session_id=session, session_epoch=1, max_wait_ms=0, min_bytes=1))
    run.ask("a moved offset", one(offset=4, session_id=session, session_epoch=2))
    run.ask("the same offset", r(session_id=session, session_epoch=3, max_wait_ms=0, min_bytes=1))
    run.ask("a new partition", one(partition=1, session_id=session, session_epoch=4))
    run.ask("an unknown partition in it", one(partition=9, session_id=session, session_epoch=5))
    topic = one().topics[0]
    forgotten = r.ForgottenTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[0, 9])
    request = r(session_id=session, session_epoch=6, forgotten_topics_data=[forgotten], max_wait_ms=0, min_bytes=1)
    run.ask("forgotten partitions", request)
    run.ask("an unknown session", r(session_id=session + 1, session_epoch=1, max_wait_ms=0))
    run.ask("closed", one(session_id=session, session_epoch=-1))
    run.ask("after it was closed", r(session_id=session, session_epoch=7, max_wait_ms=0))
    run.ask("an unknown topic in a new session", one("nowhere", session_id=0, session_epoch=0))


def list_offsets(run: Run) -> None:
    name, _ = run.topic("a", [[0], [0]])
    run.produce(name, batch(b"0", b"1", b"2", at=0).data)
    run.produce(name, batch(b"3", b"4", b"5", at=100, compression=1).data)
    r, version = LIST_OFFSETS.Request, run.version

    def one(timestamp: int, topic: str = name, partition: int = 0, **fields: Any) -> Any:
        details = {key: fields.pop(key) for key in ("current_leader_epoch",) if key in fields}
        wanted = r.ListOffsetsPartition(partition_index=partition, timestamp=timestamp, **details)
        listed = r.ListOffsetsTopic(name=topic, partitions=[wanted])
        return r(replica_id=-1, topics=[listed], timeout_ms=1000, **fields)

    for timestamp in (-1, -2, -3, -4, -5, -6, -7):
        run.ask(f"timestamp {timestamp}", one(timestamp))
    run.ask("the empty partition's latest", one(-1, partition=1))
    run.ask("the empty partition's greatest timestamp", one(-3, partition=1))
    run.ask("the first time", one(NOW_MS))
    run.ask("within the first batch", one(NOW_MS + 2))
    run.ask("between two batches", one(NOW_MS + 50))
    run.ask("within a compressed batch", one(NOW_MS + 101))
    run.ask("the last time", one(NOW_MS + 102))
    run.ask("after all", one(NOW_MS + 103))
    run.ask("time zero", one(0))
    run.ask("an unknown topic", one(-1, "nowhere"))
    run.ask("an unknown partition", one(-1, partition=9))
    if version >= 2:
        run.ask("committed only", one(-1, isolation_level=1))
    if version >= 4:
        run.ask("the current epoch", one(-1, current_leader_epoch=0))
        run.ask("a future epoch", one(-1, current_leader_epoch=5))
    twice = one(-1)
    twice.topics[0].partitions *= 2
    run.ask("a partition twice", twice)


def offset_for_leader_epoch(run: Run) -> None:
    name, _ = run.topic("a")
    run.produce(name, batch(b"0", b"1").data)
    r = OFFSET_FOR_LEADER_EPOCH.Request

    def one(epoch: int, current: int = -1, topic: str = name, partition: int = 0) -> Any:
        wanted = r.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        return r(replica_id=-1, topics=[r.OffsetForLeaderTopic(topic=topic, partitions=[wanted])])

    run.ask("the current epoch", one(0))
    run.ask("with the leader's epoch", one(0, 0))
    run.ask("a future leader's epoch", one(0, 5))
    run.ask("a future epoch", one(5))
    run.ask("no epoch", one(-1))
    run.ask("an unknown topic", one(0, topic="nowhere"))
    run.ask("an unknown partition", one(0, partition=9))


def delete_records(run: Run) -> None:
    name, _ = run.topic("a")
    for first in range(0, 6, 2):
        run.produce(name, batch(b"%d" % first, b"%d" % (first + 1), at=first).data)
    r = DELETE_RECORDS.Request

    def one(offset: int, topic: str = name, partition: int = 0) -> Any:
        wanted = r.DeleteRecordsPartition(partition_index=partition, offset=offset)
        return r(topics=[r.DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=10_000)

    run.ask("the first three", one(3))
    run.ask("the first three again", one(3))
    run.ask("fewer than are gone", one(1))
    run.ask("beyond the end", one(7))
    run.ask("a negative offset", one(-2))
    run.ask("an unknown topic", one(1, "nowhere"))
    run.ask("an unknown partition", one(1, partition=9))
    run.ask("all", one(-1))
    run.ask("nothing", r(timeout_ms=1000))


def elect_leaders(run: Run) -> None:
    name, _ = run.topic("a", [[0], [0]])
    r = ELECT_LEADERS.Request

    def one(topic: str, *partitions: int, kind: int = 0) -> Any:
        wanted = r.TopicPartitions(topic=topic, partitions=list(partitions))
        return r(election_type=kind, topic_partitions=[wanted], timeout_ms=10_000)

    run.ask("not needed", one(name, 0))
    run.ask("two", one(name, 0, 1))
    run.ask("an unknown topic", one("nowhere", 0))
    run.ask("an unknown partition", one(name, 9))
    run.ask("none", r(topic_partitions=[], timeout_ms=1000))
    run.ask("all", r(topic_partitions=None, timeout_ms=10_000))
    results = run.answers["all"]["replica_election_results"]
    run.answers["all"]["replica_election_results"] = [each for each in results if each["topic"] == name]
    if run.version >= 1:
        run.ask("unclean, not needed", one(name, 0, kind=1))


Script = Callable[[Run], None]

SCRIPTS: list[tuple[str, Api, Script]] = [
    ("metadata", METADATA, metadata),
    ("describe_cluster", DESCRIBE_CLUSTER, describe_cluster),
    ("describe_topic_partitions", DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions),
    ("create_topics", CREATE_TOPICS, create_topics),
    ("delete_topics", DELETE_TOPICS, delete_topics),
    ("create_partitions", CREATE_PARTITIONS, create_partitions),
    ("produce", PRODUCE, produce),
    ("idempotence", PRODUCE, idempotence),
    ("init_producer_id", INIT_PRODUCER_ID, init_producer_id),
    ("fetch", FETCH, fetch),
    ("list_offsets", LIST_OFFSETS, list_offsets),
    ("offset_for_leader_epoch", OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch),
    ("delete_records", DELETE_RECORDS, delete_records),
    ("elect_leaders", ELECT_LEADERS, elect_leaders),
]
CASES = [(name, version, script, api) for name, api, script in SCRIPTS for version in api.versions]
