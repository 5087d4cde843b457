"""Requests that wait on one node: what ends the wait and what is answered then."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.wire import Error
from dwell.broker.wire.message.fetch import FETCH
from dwell.broker.wire.message.produce import PRODUCE
from dwell.broker.wire.message.topic import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_RECORDS, DELETE_TOPICS
from tests.broker.oracle.answer import plain
from tests.broker.oracle.apache import ApacheKafka
from tests.broker.oracle.client import Connection, Side, create_topic, describe
from tests.broker.oracle.ours import Ours
from tests.broker.oracle.script import batch

pytestmark = [pytest.mark.maven, pytest.mark.timeout(600)]

Sides = tuple[Ours, ApacheKafka]
VERSION = 16
LONG_MS = 25_000


def _fetch(
    topic_id: bytes,
    offset: int = 0,
    *,
    min_bytes: int = 1,
    max_wait_ms: int = LONG_MS,
    partitions: tuple[int, ...] = (0,),
) -> Any:
    r = FETCH.Request
    wanted = [
        r.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1_000_000) for index in partitions
    ]
    topic = r.FetchTopic(topic_id=topic_id, partitions=wanted)
    return r(topics=[topic], min_bytes=min_bytes, max_wait_ms=max_wait_ms)


def _produce(connection: Connection, topic: str, records: bytes, *, acks: int = -1, timeout_ms: int = 10_000) -> Any:
    r = PRODUCE.Request
    data = r.TopicProduceData(name=topic, partition_data=[r.PartitionProduceData(index=0, records=records)])
    answer = connection.ask(PRODUCE, 12, r(acks=acks, timeout_ms=timeout_ms, topic_data=[data]))
    return answer.responses[0].partition_responses[0]


def _answer(message: Any, topic_ids: dict[bytes, str]) -> Any:
    return plain(FETCH.response, VERSION, message, topic_ids)


def test_a_fetch_ends_with_its_max_wait(one_node: Sides) -> None:
    answers = []
    for side in one_node:
        topic_id = create_topic(side, "waits-expire", [[0]])
        with Connection(side) as connection:
            _produce(connection, "waits-expire", batch(b"a").data)
            answer = connection.ask(FETCH, VERSION, _fetch(topic_id, min_bytes=100_000, max_wait_ms=700))
            answers.append(_answer(answer, {topic_id: "t"}))
            assert connection.waited_ms >= 699, side.name
    assert answers[0] == answers[1]
    assert answers[0]["responses"][0]["partitions"][0]["records"]


@pytest.mark.parametrize("kind", ["enough bytes", "nothing but an unknown partition", "an offset out of range"])
def test_a_fetch_that_can_be_answered_does_not_wait(one_node: Sides, kind: str) -> None:
    answers = []
    for side in one_node:
        name = f"waits-at-once-{kind.replace(' ', '-')}"
        topic_id = create_topic(side, name, [[0]])
        with Connection(side) as connection:
            _produce(connection, name, batch(b"a").data)
            request = _fetch(topic_id, 9 if kind == "an offset out of range" else 0)
            if kind == "nothing but an unknown partition":
                request = _fetch(topic_id, 1, partitions=(9,))
            answers.append(_answer(connection.ask(FETCH, VERSION, request), {topic_id: "t"}))
            assert connection.waited_ms < LONG_MS, side.name
    assert answers[0] == answers[1]


def test_an_unknown_partition_does_not_end_the_wait_for_a_known_one(one_node: Sides) -> None:
    answers = []
    for side in one_node:
        topic_id = create_topic(side, "waits-unknown", [[0]])
        with Connection(side) as connection:
            request = _fetch(topic_id, partitions=(0, 9), max_wait_ms=700)
            answers.append(_answer(connection.ask(FETCH, VERSION, request), {topic_id: "t"}))
            assert connection.waited_ms >= 699, side.name
    assert answers[0] == answers[1]


def test_the_produce_that_fills_a_fetch_answers_it(one_node: Sides) -> None:
    answers = []
    size = len(batch(b"a").data)
    for side in one_node:
        topic_id = create_topic(side, "waits-filled", [[0]])
        with Connection(side) as consumer, Connection(side) as producer:
            consumer.send(FETCH, VERSION, _fetch(topic_id, min_bytes=2 * size))
            for value in (b"a", b"b", b"c"):
                _produce(producer, "waits-filled", batch(value).data)
            answers.append(_answer(consumer.receive(FETCH, VERSION), {topic_id: "t"}))
    assert (
        answers[0]["responses"][0]["partitions"][0]["records"][:2]
        == (answers[1]["responses"][0]["partitions"][0]["records"][:2])
    )
    assert len(answers[0]["responses"][0]["partitions"][0]["records"]) >= 2


def test_deleting_the_topic_ends_a_fetch(one_node: Sides) -> None:
    answers = []
    for side in one_node:
        topic_id = create_topic(side, "waits-deleted", [[0]])
        with Connection(side) as consumer, Connection(side) as admin:
            consumer.send(FETCH, VERSION, _fetch(topic_id))
            # Fetch is parked when a request sent after it on another connection is answered; ask twice to be sure.
            describe(admin, "waits-deleted")
            _park()
            r = DELETE_TOPICS.Request
            admin.ask(DELETE_TOPICS, 6, r(topics=[r.DeleteTopicState(name="waits-deleted")], timeout_ms=10_000))
            answers.append(_answer(consumer.receive(FETCH, VERSION), {topic_id: "t"}))
    assert answers[0] == answers[1]


def _park() -> None:
    """Kafka has no way to ask what is parked: half a second is enough for a request to get there."""
    import time

    time.sleep(0.5)


def test_a_batch_sent_again_after_a_cut_connection_is_a_duplicate(one_node: Sides) -> None:
    outcomes = []
    for side in one_node:
        create_topic(side, "waits-cut", [[0]])
        records = batch(b"a", b"b", producer_id=99, producer_epoch=0, base_sequence=0).data
        r = PRODUCE.Request
        data = r.TopicProduceData(name="waits-cut", partition_data=[r.PartitionProduceData(index=0, records=records)])
        with Connection(side) as first:
            first.send(PRODUCE, 12, r(acks=-1, timeout_ms=10_000, topic_data=[data]))
            # The answer is on its way or lost: the connection goes without reading it.
        with Connection(side) as second:
            again = _produce(second, "waits-cut", records)
            follows = batch(b"c", producer_id=99, producer_epoch=0, base_sequence=2).data
            after = _produce(second, "waits-cut", follows)
        outcomes.append([(Error(each.error_code).name, each.base_offset) for each in (again, after)])
    assert outcomes[0] == outcomes[1] == [("NONE", 0), ("NONE", 2)]


def test_deleted_records_are_gone_at_once(one_node: Sides) -> None:
    """With one replica nothing waits, however short the time-out."""
    outcomes = []
    for side in one_node:
        topic_id = create_topic(side, "waits-records", [[0]])
        seen: list[Any] = []
        with Connection(side) as connection:
            for value in (b"a", b"b", b"c"):
                _produce(connection, "waits-records", batch(value).data)
            r = DELETE_RECORDS.Request
            partition = r.DeleteRecordsPartition(partition_index=0, offset=2)
            request = r(topics=[r.DeleteRecordsTopic(name="waits-records", partitions=[partition])], timeout_ms=0)
            answer = connection.ask(DELETE_RECORDS, 2, request).topics[0].partitions[0]
            seen.append((answer.error_code, answer.low_watermark))
            for offset in (0, 1, 2):
                seen.append(
                    _answer(connection.ask(FETCH, VERSION, _fetch(topic_id, offset, max_wait_ms=0)), {topic_id: "t"})
                )
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("kind", ["create", "delete", "grow"])
def test_with_no_time_at_all_kafkas_controller_does_nothing_and_ours_does_the_work(one_node: Sides, kind: str) -> None:
    """A difference on purpose: see docs/kafka.md. Kafka before KRaft did the work too and answered the time-out."""
    outcomes = []
    for side in one_node:
        name = f"waits-no-time-{kind}"
        if kind != "create":
            create_topic(side, name, [[0]])
        with Connection(side) as connection:
            outcomes.append((_in_no_time(connection, kind, name), _state(side, connection, kind, name)))
    ours, kafkas = outcomes
    assert kafkas == (Error.REQUEST_TIMED_OUT, "as before")
    assert ours == (Error.NONE, "done")


def _in_no_time(connection: Connection, kind: str, name: str) -> int:
    code: int
    if kind == "create":
        r = CREATE_TOPICS.Request
        topic = r.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        code = connection.ask(CREATE_TOPICS, 7, r(topics=[topic], timeout_ms=0)).topics[0].error_code
    elif kind == "delete":
        d = DELETE_TOPICS.Request
        code = (
            connection.ask(DELETE_TOPICS, 6, d(topics=[d.DeleteTopicState(name=name)], timeout_ms=0))
            .responses[0]
            .error_code
        )
    else:
        p = CREATE_PARTITIONS.Request
        wanted = p.CreatePartitionsTopic(name=name, count=3, assignments=None)
        code = connection.ask(CREATE_PARTITIONS, 3, p(topics=[wanted], timeout_ms=0)).results[0].error_code
    return code


def _state(side: Side, connection: Connection, kind: str, name: str) -> str:
    topic = describe(connection, name)
    done = {"create": topic.error_code == 0, "delete": topic.error_code != 0, "grow": len(topic.partitions) == 3}[kind]
    return "done" if done else "as before"
