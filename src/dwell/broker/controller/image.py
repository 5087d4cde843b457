"""The cluster's metadata as one broker knows it.

The controller has an image of its own, which is the truth; each broker has another, which follows it, late if the
broker is told to lag. A change is a list of records (`TopicImage`, `TopicGone`, `PartitionImage`, `BrokerImage`);
applying the same records in the same order gives the same image everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

NO_LEADER = -1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    id: int
    host: str
    port: int
    rack: str | None = None
    # A broker that is down; it stays registered.
    is_fenced: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    topic: str
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    # Counts every change of this partition, the ISR's included.
    partition_epoch: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    name: str
    id: bytes
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in ("__consumer_offsets", "__transaction_state")


@final
@dataclass(frozen=True, slots=True)
class TopicGone:
    name: str


Record = BrokerImage | TopicImage | TopicGone | PartitionImage


class Image:
    """Topics, partitions and brokers by name, number and id."""

    __slots__ = ("brokers", "names", "partitions", "topics")

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.names: dict[bytes, str] = {}
        self.partitions: dict[str, list[PartitionImage]] = {}

    def apply(self, record: Record) -> None:
        if isinstance(record, PartitionImage):
            partitions = self.partitions[record.topic]
            if record.index == len(partitions):
                partitions.append(record)
            else:
                partitions[record.index] = record
        elif isinstance(record, TopicImage):
            self.topics[record.name] = record
            self.names[record.id] = record.name
            self.partitions.setdefault(record.name, [])
        elif isinstance(record, TopicGone):
            topic = self.topics.pop(record.name)
            del self.names[topic.id], self.partitions[record.name]
        else:
            self.brokers[record.id] = record

    def copy(self) -> Image:
        copy = Image()
        copy.brokers = dict(self.brokers)
        copy.topics = dict(self.topics)
        copy.names = dict(self.names)
        copy.partitions = {name: list(partitions) for name, partitions in self.partitions.items()}
        return copy

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        partitions = self.partitions.get(topic)
        return partitions[index] if partitions is not None and 0 <= index < len(partitions) else None

    def alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def alive_brokers(self) -> list[BrokerImage]:
        return [broker for broker in self.brokers.values() if not broker.is_fenced]
