"""One broker: its copy of the metadata, its replicas, its purgatories, its connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from dwell.broker.controller.image import BrokerImage, Image, PartitionImage, Record, TopicGone, TopicImage
from dwell.broker.fetch_session import FetchSessions
from dwell.broker.log.log import Log
from dwell.broker.replica.partition import Partition
from dwell.purgatory import Purgatory

if TYPE_CHECKING:
    from dwell.broker.host import Host
    from dwell.broker.server.connection import Connection


class Broker:
    """Everything a real broker would have in its own process. All calls are made in the host's thread."""

    def __init__(self, host: Host, registration: BrokerImage) -> None:
        self.host = host
        self.id = registration.id
        self.registration = registration
        self.image = Image()
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.connections: set[Connection] = set()
        self.fetch_sessions = FetchSessions(host.config["max.incremental.fetch.session.cache.slots"], host.random)
        self._purgatories: dict[str, Purgatory] = {}
        # Up and running. A broker that is down answers nothing and keeps its logs.
        self.is_alive = True
        # Its followers stop fetching; clients are still answered.
        self.is_frozen = False
        # Neither followers nor clients nor the controller reach it.
        self.is_isolated = False
        # Pause of its followers before each fetch.
        self.lag_ms = 0
        # How late it sees the controller's changes.
        self.metadata_lag_ms = 0
        self._metadata: deque[tuple[int, list[Record]]] = deque()
        self._is_applying = False
        # Logs and high watermarks of a broker that is down, by topic id and partition.
        self._disk: dict[tuple[bytes, int], tuple[Log, int]] = {}
        self.now_ms = host.now_ms

    @property
    def is_fetching(self) -> bool:
        return self.is_alive and not self.is_frozen and not self.is_isolated

    @property
    def is_reachable(self) -> bool:
        return self.is_alive and not self.is_isolated

    # Purgatories

    def purgatory(self, kind: str) -> Purgatory:
        """The purgatory for one kind of wait, made when it is first needed."""
        found = self._purgatories.get(kind)
        if found is None:
            found = self._purgatories[kind] = self.host.make_purgatory(f"broker-{self.id}-{kind}", kind)
        return found

    def check(self, kind: str, key: Hashable) -> None:
        """Try what waits for `key` in one purgatory. Called from the agenda only."""
        purgatory = self._purgatories.get(kind)
        if purgatory is not None:
            host = self.host
            host.checking = getattr(key, "name", None) or str(key)
            purgatory.check_and_complete(key)
            host.checking = None

    # Metadata

    def deliver(self, records: list[Record]) -> None:
        """Records from the controller: applied now, or after the metadata lag."""
        self._metadata.append((self.now_ms() + self.metadata_lag_ms, records))
        if len(self._metadata) == 1:
            self.apply_due()

    def apply_due(self) -> None:
        """Apply the records whose time has come, and come back for the next ones. Nothing arrives while isolated."""
        if self._is_applying:
            return
        self._is_applying = True
        try:
            while self._metadata and not self.is_isolated:
                wait_ms = self._metadata[0][0] - self.now_ms()
                if wait_ms > 0:
                    self.host.schedule(wait_ms, self.apply_due)
                    return
                self._apply(self._metadata.popleft()[1])
        finally:
            self._is_applying = False

    def _apply(self, records: list[Record]) -> None:
        # The whole change first: a partition that starts to follow looks at the leader's own view.
        for record in records:
            if isinstance(record, TopicGone):
                self._drop_topic(record.name)
            self.image.apply(record)
        names: set[str] = set()
        for record in records:
            if isinstance(record, PartitionImage):
                names.add(record.topic)
                self._apply_partition(record)
                self.host.agenda.put(lambda key=(record.topic, record.index): self.check("elect_leader", key))  # type: ignore[misc]
            elif isinstance(record, (TopicImage, TopicGone)):
                names.add(record.name)
            else:
                for partition in list(self.partitions.values()):
                    if record.id in partition.followers:
                        # Low watermarks count the replicas of living brokers only.
                        partition.check_waiting()
                        partition.grow_isr()
        for name in names:
            self.host.agenda.put(lambda name=name: self.check("topic", name))  # type: ignore[misc]

    def _apply_partition(self, record: PartitionImage) -> None:
        key = (record.topic, record.index)
        partition = self.partitions.get(key)
        if self.id not in record.replicas:
            if partition is not None:
                del self.partitions[key]
                partition.delete()
            return
        if partition is None:
            partition = self._open(record)
        partition.apply(record)

    def _open(self, record: PartitionImage) -> Partition:
        topic = self.image.topics[record.topic]
        log, high_watermark = self._disk.pop((topic.id, record.index), (None, 0))
        # As known before any leader: the first `apply` gives it its role.
        unknown = replace(record, leader=-1, leader_epoch=-1)
        partition = Partition(self, unknown, topic.id, self.host.topic_config(topic), log or Log())
        partition.restore_high_watermark(high_watermark)
        self.partitions[(record.topic, record.index)] = partition
        return partition

    def _drop_topic(self, name: str) -> None:
        for key in [key for key in self.partitions if key[0] == name]:
            self.partitions.pop(key).delete()

    # Followers

    def fetch_again(self) -> None:
        """Whatever kept its followers from fetching may be over."""
        for partition in list(self.partitions.values()):
            partition.fetcher.step()

    def interrupt_fetching(self) -> None:
        for partition in self.partitions.values():
            partition.fetcher.interrupt()

    def interrupt_followers(self) -> None:
        """Let go of the fetches that other brokers have parked here."""
        for partition in self.partitions.values():
            if partition.is_leader:
                for other in self.host.brokers:
                    follower = other.partitions.get((partition.topic, partition.index))
                    if follower is not None and follower is not partition:
                        follower.fetcher.interrupt()

    # Down and up

    def go_down(self, reason: str) -> None:
        """End all connections and everything that waits; logs stay."""
        self.is_alive = False
        for connection in list(self.connections):
            connection.close(reason)
        self.interrupt_followers()
        for partition in self.partitions.values():
            self._disk[(partition.topic_id, partition.index)] = (partition.log, partition.high_watermark)
            partition.stop()
        self.partitions.clear()
        self._metadata.clear()
        self.fetch_sessions.clear()

    def come_up(self, image: Image, *, wipe: bool) -> None:
        """Start again with the controller's metadata and the logs of before, or with none."""
        if wipe:
            self._disk.clear()
        self.is_alive = True
        self.image = image.copy()
        for partitions in image.partitions.values():
            for record in partitions:
                self._apply_partition(record)
        self._disk.clear()

    @property
    def purgatories(self) -> list[Purgatory]:
        """Those that exist, in the order of their names."""
        return [self._purgatories[kind] for kind in sorted(self._purgatories)]

    def __repr__(self) -> str:
        return f"<broker {self.id}>"
