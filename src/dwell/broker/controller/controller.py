"""The controller: the one place where topics, leaders and in-sync sets change.

Everybody asks it (`create_topic`, `alter_isr`, `broker_down`, ...). A change waits for `delay_ms`, or for `resume()`
while the controller is paused; then it is decided by the state of that moment, applied to the controller's image, and
sent to the brokers, each of which applies it after its own metadata lag. With all delays at zero this happens inside
the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dwell.broker.controller.assignment import assign
from dwell.broker.controller.election import elect, without
from dwell.broker.controller.image import (
    NO_LEADER,
    BrokerImage,
    Image,
    PartitionImage,
    Record,
    TopicGone,
    TopicImage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dwell.broker.host import Host

Decision = Callable[[], Iterable[Record]]


class Controller:
    """Holds the image that is the truth. Not a broker's thread, nor a connection: a part of the host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.image = Image()
        self.delay_ms = 0
        self.is_paused = False
        # Changes that are asked for and not decided: the moment from which they may be, and the decision.
        self._asked: deque[tuple[int, Decision]] = deque()
        self._is_deciding = False
        # Topics that are asked for and do not exist yet, or are asked to go and still exist.
        self.creating: set[str] = set()
        self.deleting: set[str] = set()

    @property
    def id(self) -> int:
        """The broker that clients are told is the controller: the first one alive."""
        return min((broker.id for broker in self.image.alive_brokers()), default=-1)

    # Deciding

    def ask(self, decision: Decision) -> None:
        """Let `decision` give records when its time has come; changes are decided in the order they were asked for."""
        self._asked.append((self._host.now_ms() + self.delay_ms, decision))
        if self.delay_ms:
            self._host.schedule(self.delay_ms, self.decide)
        self.decide()

    def decide(self) -> None:
        """Decide what is due. A change that a broker asks for while it is told of another one comes after that."""
        if self._is_deciding:
            return
        self._is_deciding = True
        try:
            while self._asked and not self.is_paused and self._asked[0][0] <= self._host.now_ms():
                _, decision = self._asked.popleft()
                records = list(decision())
                if records:
                    for record in records:
                        self.image.apply(record)
                    self._host.publish(records)
        finally:
            self._is_deciding = False

    @property
    def num_asked(self) -> int:
        """How many changes wait to be decided."""
        return len(self._asked)

    # Topics

    def create_topic(
        self, name: str, assignment: Sequence[tuple[int, ...]] | tuple[int, int], configs: Mapping[str, str]
    ) -> None:
        """Create a topic whose name and numbers were checked. `assignment`: replicas by partition, or two numbers."""
        self.creating.add(name)

        def decide() -> Iterable[Record]:
            self.creating.discard(name)
            if name in self.image.topics:
                return
            yield TopicImage(name=name, id=self._host.new_id(), configs=configs)
            replicas = self._spread(0, assignment)
            for index, brokers in enumerate(replicas):
                yield self._new_partition(name, index, brokers)

        self.ask(decide)

    def delete_topic(self, name: str) -> None:
        self.deleting.add(name)

        def decide() -> Iterable[Record]:
            self.deleting.discard(name)
            if name in self.image.topics:
                yield TopicGone(name)

        self.ask(decide)

    def add_partitions(self, name: str, count: int, assignment: Sequence[tuple[int, ...]] | None) -> None:
        """Grow a topic to `count` partitions."""

        def decide() -> Iterable[Record]:
            partitions = self.image.partitions.get(name)
            if partitions is None:
                return
            first = len(partitions)
            wanted = assignment or self._spread(first, (count - first, len(partitions[0].replicas)))
            for index, brokers in enumerate(wanted, first):
                yield self._new_partition(name, index, brokers)

        self.ask(decide)

    def _spread(self, first: int, assignment: Sequence[tuple[int, ...]] | tuple[int, int]) -> Sequence[tuple[int, ...]]:
        if assignment and isinstance(assignment[0], int):
            count, replication = assignment
            assert isinstance(count, int)
            assert isinstance(replication, int)
            # Brokers that are down are used only if the living ones do not suffice.
            alive = self.image.alive_brokers()
            brokers = alive if len(alive) >= replication else list(self.image.brokers.values())
            return assign(brokers, first, count, replication)
        return assignment  # type: ignore[return-value]

    def _new_partition(self, topic: str, index: int, replicas: tuple[int, ...]) -> PartitionImage:
        isr = tuple(replica for replica in replicas if self.image.alive(replica))
        leader = isr[0] if isr else NO_LEADER
        return PartitionImage(topic=topic, index=index, replicas=replicas, isr=isr or replicas, leader=leader)

    # Replicas

    def alter_isr(self, leader: int, seen: PartitionImage, isr: tuple[int, ...]) -> None:
        """A leader asks for another ISR; refused if the partition is no longer as the leader saw it."""

        def decide() -> Iterable[Record]:
            now = self.image.partition(seen.topic, seen.index)
            granted = (
                now is not None
                and now.leader == leader
                and now.leader_epoch == seen.leader_epoch
                and now.partition_epoch == seen.partition_epoch
                and all(self.image.alive(replica) for replica in isr)
            )
            if not granted:
                self._host.isr_refused(leader, seen)
                return
            assert now is not None
            yield replace(now, isr=isr, partition_epoch=now.partition_epoch + 1)

        self.ask(decide)

    def move_leader(self, topic: str, index: int, to: int) -> None:
        """Let the in-sync replica `to` lead."""

        def decide() -> Iterable[Record]:
            now = self.image.partition(topic, index)
            if now is not None:
                yield from self._changed(now, elect(now, self.image.alive, prefer=to))

        self.ask(decide)

    def elect_leader(self, topic: str, index: int, *, unclean: bool) -> None:
        """Elect the preferred leader or, with `unclean`, any living replica of a partition without one."""

        def decide() -> Iterable[Record]:
            now = self.image.partition(topic, index)
            if now is not None:
                prefer = None if unclean else now.replicas[0]
                yield from self._changed(now, elect(now, self.image.alive, unclean=unclean, prefer=prefer))

        self.ask(decide)

    @staticmethod
    def _changed(before: PartitionImage, after: PartitionImage) -> Iterable[Record]:
        return () if after is before else (after,)

    # Brokers

    def broker_up(self, broker: BrokerImage) -> None:
        """A broker registers or comes back: partitions without a leader may have one again."""

        def decide() -> Iterable[Record]:
            yield broker

            def alive(replica: int) -> bool:
                return replica == broker.id or self.image.alive(replica)

            for partition in self._partitions():
                if partition.leader == NO_LEADER and broker.id in partition.replicas:
                    unclean = self._is_unclean(partition)
                    yield from self._changed(partition, elect(partition, alive, unclean=unclean))

        self.ask(decide)

    def broker_down(self, broker_id: int) -> None:
        """A broker is fenced: it leaves every ISR where another is left, and its partitions get other leaders."""

        def decide() -> Iterable[Record]:
            broker = self.image.brokers.get(broker_id)
            if broker is None or broker.is_fenced or self._host.is_in_session(broker_id):
                return
            yield replace(broker, is_fenced=True)

            def alive(replica: int) -> bool:
                return replica != broker_id and self.image.alive(replica)

            for partition in self._partitions():
                if broker_id in partition.replicas:
                    unclean = self._is_unclean(partition)
                    after = elect(without(partition, broker_id), alive, unclean=unclean)
                    yield from self._changed(partition, after)

        self.ask(decide)

    def leave(self, broker_id: int) -> None:
        """A broker is about to stop: others take over what it leads, while it still answers."""

        def decide() -> Iterable[Record]:
            for partition in self._partitions():
                if partition.leader == broker_id and len(partition.isr) > 1:
                    yield from self._changed(
                        partition,
                        elect(without(partition, broker_id), lambda one: one != broker_id and self.image.alive(one)),
                    )

        self.ask(decide)

    def _is_unclean(self, partition: PartitionImage) -> bool:
        return self._host.topic_config(self.image.topics[partition.topic]).unclean

    def _partitions(self) -> list[PartitionImage]:
        return [partition for partitions in self.image.partitions.values() for partition in partitions]
