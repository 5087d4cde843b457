"""Topics and records without a client: what `Cluster` offers for setting up and looking at a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from dwell.broker.api import create_topics
from dwell.broker.config import TOPIC, parse
from dwell.broker.partitioner import partition_of
from dwell.broker.record.record import Record, read_records, write_batch
from dwell.broker.wire.message.topic import CREATE_TOPICS
from dwell.errors import InvalidArgument, InvalidType

if TYPE_CHECKING:
    from dwell.broker.host import Host
    from dwell.broker.replica.partition import Partition

FIELDS = ("partitions", "replication", "min_insync", "assignment", "configs")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record and where it lies."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@final
@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic that is asked for; None stands for the cluster's default."""

    name: str
    partitions: int | None = None
    replication: int | None = None
    min_insync: int | None = None
    assignment: Sequence[Sequence[int]] | None = None
    configs: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, spec: int | Mapping[str, Any]) -> TopicSpec:
        """From an entry of `topics=`."""
        if isinstance(spec, int) and not isinstance(spec, bool):
            return cls(name, spec)
        if not isinstance(spec, Mapping):
            raise InvalidType(f"topic {name!r} must be a number of partitions or a dict, not {spec!r}")
        unknown = [key for key in spec if key not in FIELDS]
        if unknown:
            raise InvalidArgument(f"topic {name!r}: {unknown[0]!r} is none of {', '.join(FIELDS)}")
        return cls(name, **spec)


def create(host: Host, spec: TopicSpec) -> None:
    """Create a topic as CreateTopics would; `InvalidArgument` says why it cannot be."""
    configs = {name: _text(value) for name, value in spec.configs.items()}
    if spec.min_insync is not None:
        configs["min.insync.replicas"] = str(spec.min_insync)
    for name, value in configs.items():
        parse(TOPIC, name, value)
    group = CREATE_TOPICS.Request
    topic = group.CreatableTopic(
        name=spec.name,
        num_partitions=-1 if spec.partitions is None else spec.partitions,
        replication_factor=-1 if spec.replication is None else spec.replication,
        assignments=[
            group.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(spec.assignment or ())
        ],
    )
    try:
        assignment = create_topics.check(host, topic, configs)
    except create_topics.Refused as refused:
        raise InvalidArgument(f"topic {spec.name!r} cannot be created: {refused}") from refused
    host.controller.create_topic(spec.name, assignment, configs)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def led(host: Host, topic: str) -> list[Partition]:
    """The partitions of a topic at their leaders; those without one are left out."""
    return [
        found
        for one in host.controller.image.partitions.get(topic, ())
        if (found := leader(host, topic, one.index)) is not None
    ]


def leader(host: Host, topic: str, index: int) -> Partition | None:
    """A partition at the broker that leads it; None if nobody does."""
    image = host.controller.image.partition(topic, index)
    if image is None or image.leader < 0:
        return None
    found = host.brokers[image.leader].partitions.get((topic, index))
    return found if found is not None and found.is_leader else None


def stored_records(host: Host, topic: str, index: int | None = None) -> list[StoredRecord]:
    """What a consumer could read now."""
    records = []
    for partition in led(host, topic):
        if index is None or index == partition.index:
            for batch in partition.log.batches():
                if batch.is_control or batch.base_offset >= partition.high_watermark:
                    continue
                records += [
                    _stored(partition, one)
                    for one in read_records(batch)
                    if partition.log.start_offset <= one.offset < partition.high_watermark
                ]
    return records


def _stored(partition: Partition, record: Record) -> StoredRecord:
    return StoredRecord(
        topic=partition.topic,
        partition=partition.index,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def _bytes(name: str, value: bytes | str | None) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is not None and not isinstance(value, bytes):
        raise InvalidType(f"{name} must be bytes, a string or None, not {value!r}")
    return value


def append_records(
    host: Host,
    topic: str,
    value: bytes | str | None,
    key: bytes | str | None,
    headers: Sequence[tuple[str, bytes | None]],
    index: int | None,
    timestamp_ms: int | None,
) -> StoredRecord:
    """Append one record at the leader."""
    if topic not in host.controller.image.topics:
        if not host.config["auto.create.topics.enable"]:
            raise InvalidArgument(f"there is no topic {topic!r}; topics: {sorted(host.controller.image.topics)}")
        create(host, TopicSpec(topic))
    partitions = host.controller.image.partitions.get(topic, [])
    value, key = _bytes("value", value), _bytes("key", key)
    if timestamp_ms is not None and not -1 <= timestamp_ms < 2**63:
        raise InvalidArgument(f"timestamp_ms must be -1 or a time of 64 bits, not {timestamp_ms!r}")
    if index is None:
        # As clients do: records of one key stay together, others fill up the shortest partition.
        if key is not None and partitions:
            index = partition_of(key, len(partitions))
        else:
            shortest = min(led(host, topic), key=lambda one: (one.log.end_offset, one.index), default=None)
            index = 0 if shortest is None else shortest.index
    partition = leader(host, topic, index)
    if partition is None:
        raise InvalidArgument(f"{topic}-{index} has no leader, or the topic has no such partition")
    record = Record(
        offset=0,
        timestamp_ms=host.wall_ms() if timestamp_ms is None else timestamp_ms,
        key=key,
        value=value,
        headers=tuple(headers),
    )
    batch = write_batch([record])
    partition.append(batch)
    return _stored(partition, next(iter(read_records(batch))))
