"""Three nodes: followers that fall silent, too few of them, leaders that move."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.wire import Api, Error
from dwell.broker.wire.message.fetch import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from dwell.broker.wire.message.produce import PRODUCE
from tests.broker.oracle.answer import differences, plain
from tests.broker.oracle.apache import ApacheKafka
from tests.broker.oracle.client import Connection, Side, create_topic, describe, wait_until
from tests.broker.oracle.ours import Ours
from tests.broker.oracle.script import batch

pytestmark = [pytest.mark.maven, pytest.mark.timeout(600)]

Sides = tuple[Ours, ApacheKafka]
# The last version of Fetch that asks the leader only. From 11 on Kafka's followers answer consumers too (KIP-392); ours
# do not yet: a difference that docs/kafka.md names.
LEADER_ONLY = 10


class Story:
    """One topic with replicas on all nodes, leader on node 0, and what it answered."""

    def __init__(self, side: Side, name: str, **configs: str) -> None:
        self.side = side
        self.name = name
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.topic_id = create_topic(side, name, [[0, 1, 2]], named)
        self.connections = [Connection(side, node) for node in range(3)]
        self.answers: list[Any] = []

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def keep(self, words: str, api: Api, version: int, answer: Any) -> None:
        self.answers.append((words, plain(api.response, version, answer, {self.topic_id: "topic"})))

    def produce_request(self, value: bytes, acks: int, timeout_ms: int) -> Any:
        r = PRODUCE.Request
        records = batch(value).data
        data = r.TopicProduceData(
            topic_id=self.topic_id, partition_data=[r.PartitionProduceData(index=0, records=records)]
        )
        return r(acks=acks, timeout_ms=timeout_ms, topic_data=[data])

    def produce(self, words: str, value: bytes, *, acks: int = -1, timeout_ms: int = 20_000, node: int = 0) -> None:
        answer = self.connections[node].ask(PRODUCE, 13, self.produce_request(value, acks, timeout_ms))
        self.keep(words, PRODUCE, 13, answer)

    def fetch(self, words: str, *, node: int = 0, epoch: int = -1, offset: int = 0, version: int = 17) -> None:
        answer = self.connections[node].ask(FETCH, version, self.fetch_request(epoch, offset, 0))
        self.keep(words, FETCH, version, answer)

    def fetch_request(self, epoch: int = -1, offset: int = 0, max_wait_ms: int = 20_000) -> Any:
        r = FETCH.Request
        partition = r.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1_000_000, current_leader_epoch=epoch
        )
        topic = r.FetchTopic(topic=self.name, topic_id=self.topic_id, partitions=[partition])
        return r(topics=[topic], max_wait_ms=max_wait_ms, min_bytes=1)

    def latest(self, words: str) -> None:
        self.answers.append((words, self.latest_offset()))

    def latest_offset(self, node: int = 0) -> int:
        r = LIST_OFFSETS.Request
        partition = r.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = r.ListOffsetsTopic(name=self.name, partitions=[partition])
        answer = self.connections[node].ask(LIST_OFFSETS, 9, r(replica_id=-1, topics=[topic]))
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    def end_of_epoch(self, words: str, epoch: int, *, current: int = -1, node: int = 0) -> None:
        r = OFFSET_FOR_LEADER_EPOCH.Request
        partition = r.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        request = r(replica_id=-1, topics=[r.OffsetForLeaderTopic(topic=self.name, partitions=[partition])])
        answer = self.connections[node].ask(OFFSET_FOR_LEADER_EPOCH, 4, request)
        self.keep(words, OFFSET_FOR_LEADER_EPOCH, 4, answer)

    def partition(self, node: int = 0) -> Any:
        return describe(self.connections[node], self.name).partitions[0]

    def wait_for_isr(self, *nodes: int, node: int = 0) -> None:
        wait_until(
            f"{self.side.name}: the ISR is not {nodes}", lambda: sorted(self.partition(node).isr_nodes) == list(nodes)
        )

    def wait_for_leader(self, leader: int, node: int) -> None:
        wait_until(
            f"{self.side.name}: node {node} does not know the new leader",
            lambda: bool(self.partition(node).leader_id == leader),
        )

    def wait_for_offset(self, offset: int, node: int = 0) -> None:
        wait_until(f"{self.side.name}: offset {offset} is not visible", lambda: self.latest_offset(node) == offset)


def test_a_frozen_follower_holds_acks_all_back(three_nodes: Sides) -> None:
    stories = []
    for side in three_nodes:
        story = Story(side, "frozen")
        story.produce("while all follow", b"a")
        story.wait_for_offset(1)
        side.freeze(2)
        try:
            story.produce("acks all, one follower frozen", b"b", timeout_ms=700)
            story.fetch("what a consumer sees then")
            story.latest("the latest offset then")
            story.produce("acks 1, one follower frozen", b"c", acks=1)
            story.latest("still the latest offset")
        finally:
            side.thaw(2)
        story.wait_for_offset(3)
        story.fetch("what a consumer sees after the thaw")
        story.close()
        stories.append(story.answers)
    ours, kafkas = stories
    assert not differences(ours, kafkas)
    errors = [
        answer["responses"][0]["partition_responses"][0]["error_code"]
        for _, answer in stories[0]
        if isinstance(answer, dict) and "partition_responses" in answer["responses"][0]
    ]
    assert errors == ["NONE", "REQUEST_TIMED_OUT", "NONE"]
    assert [answer for _, answer in stories[0] if isinstance(answer, int)] == [1, 1]


def test_a_thawed_follower_completes_a_parked_produce(three_nodes: Sides) -> None:
    stories = []
    for side in three_nodes:
        story = Story(side, "thawed")
        side.freeze(1)
        try:
            story.connections[0].send(PRODUCE, 13, story.produce_request(b"a", -1, 25_000))
            with Connection(side) as other:
                assert describe(other, "thawed").error_code == 0
        finally:
            side.thaw(1)
        story.keep("answered after the thaw", PRODUCE, 13, story.connections[0].receive(PRODUCE, 13))
        story.close()
        stories.append(story.answers)
    ours, kafkas = stories
    assert not differences(ours, kafkas)


@pytest.mark.parametrize("min_insync", [1, 2, 3])
def test_a_follower_that_leaves_the_isr(three_nodes: Sides, min_insync: int) -> None:
    """With enough replicas left the parked produce is done; with too few it runs out of time, and nothing moves."""
    stories = []
    for side in three_nodes:
        story = Story(side, f"left-{min_insync}", min_insync_replicas=str(min_insync))
        story.produce("while all follow", b"a")
        story.wait_for_offset(1)
        side.freeze(2)
        try:
            # Time enough for a busy machine to notice; with too few replicas left all of it passes.
            timeout_ms = 25_000 if min_insync == 3 else 60_000
            story.connections[0].send(PRODUCE, 13, story.produce_request(b"b", -1, timeout_ms))
            story.wait_for_isr(0, 1, node=1)
            story.keep("parked while it left", PRODUCE, 13, story.connections[0].receive(PRODUCE, 13))
            story.produce("acks all without it", b"c", timeout_ms=1_000)
            story.produce("acks 1 without it", b"d", acks=1)
            if min_insync < 3:
                story.wait_for_offset(4)
            story.latest("the latest offset without it")
            story.fetch("what a consumer sees without it")
        finally:
            side.thaw(2)
        story.wait_for_isr(0, 1, 2)
        story.wait_for_offset(3 if min_insync == 3 else 4)
        story.produce("with it again", b"e")
        story.fetch("what a consumer sees in the end")
        story.close()
        stories.append(story.answers)
    ours, kafkas = stories
    assert not differences(ours, kafkas)


def test_a_leader_that_moves(three_nodes: Sides) -> None:
    stories = []
    for side in three_nodes:
        story = Story(side, "moved")
        story.produce("before", b"a")
        story.wait_for_offset(1)
        first = story.partition().leader_epoch
        with Connection(side, 0) as parked:
            parked.send(FETCH, LEADER_ONLY, story.fetch_request(offset=1))
            side.move_leader("moved", 1)
            story.keep("a fetch that was parked", FETCH, LEADER_ONLY, parked.receive(FETCH, LEADER_ONLY))
        for node in range(3):
            story.wait_for_leader(1, node)
        story.wait_for_offset(1, node=1)
        second = story.partition().leader_epoch
        assert second > first
        story.produce("to the old leader", b"b")
        story.produce("to the new leader", b"b", node=1)
        story.fetch("from the old leader", version=LEADER_ONLY)
        story.fetch("from the new leader", node=1)
        story.fetch("with the old epoch", node=1, epoch=first)
        story.fetch("with the new epoch", node=1, epoch=second)
        story.fetch("with an epoch to come", node=1, epoch=second + 1)
        story.end_of_epoch("where the old epoch ends", first, node=1)
        story.end_of_epoch("where the new epoch ends", second, node=1)
        story.end_of_epoch("asked with the old epoch", first, current=first, node=1)
        story.end_of_epoch("asked at the old leader", first)
        story.close()
        stories.append(_ranked(story.answers, {first: "first epoch", second: "second epoch"}))
    ours, kafkas = stories
    assert not differences(ours, kafkas)


def test_a_produce_parked_on_a_leader_that_moves(three_nodes: Sides) -> None:
    stories = []
    for side in three_nodes:
        story = Story(side, "moved-produce")
        side.freeze(2)
        try:
            story.connections[0].send(PRODUCE, 13, story.produce_request(b"a", -1, 25_000))
            side.move_leader("moved-produce", 1)
            answer = story.connections[0].receive(PRODUCE, 13)
            story.answers.append(Error(answer.responses[0].partition_responses[0].error_code).name)
        finally:
            side.thaw(2)
        story.close()
        stories.append(story.answers)
    ours, kafkas = stories
    assert not differences(ours, kafkas)


def _ranked(value: Any, epochs: dict[int, str]) -> Any:
    """Leader epochs by their order: how many numbers a move takes is Kafka's own business."""
    if isinstance(value, dict):
        return {
            key: epochs.get(each, each) if key.endswith("epoch") and isinstance(each, int) else _ranked(each, epochs)
            for key, each in value.items()
        }
    if isinstance(value, tuple) and len(value) == 6:
        return (*value[:2], epochs.get(value[2], value[2]), *value[3:])
    if isinstance(value, list | tuple):
        return [_ranked(each, epochs) for each in value]
    return value
