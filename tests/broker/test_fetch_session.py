"""Fetch sessions: named once, answered by what is new."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dwell.broker.fetch_session import EVICTION_MS, FetchSessions
from dwell.broker.host import Host
from dwell.broker.wire import Error
from dwell.broker.wire.message.fetch import FETCH
from tests.broker.core import Client, make_host, records

TEA = records(b"tea")


@pytest.fixture
def host() -> Host:
    return make_host(1, {"orders": 3, "other": 1})


def fetch(
    client: Client,
    session: int,
    epoch: int,
    offsets: dict[int, int] | None = None,
    *,
    forget: list[int] | None = None,
    wait_ms: int = 0,
    version: int = 12,
    topic: Any = "orders",
) -> list[Any]:
    request = FETCH.Request
    name = {"topic_id": topic} if version >= 13 else {"topic": topic}
    asked = [
        request.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=2**20)
        for index, offset in (offsets or {}).items()
    ]
    client.send(
        FETCH,
        version,
        request(
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=session,
            session_epoch=epoch,
            topics=[request.FetchTopic(**name, partitions=asked)] if asked else [],
            forgotten_topics_data=[request.ForgottenTopic(**name, partitions=forget)] if forget else [],
        ),
    )
    return client.take()


def partitions(answer: Any) -> list[int]:
    return [one.partition_index for topic in answer.responses for one in topic.partitions]


def test_a_new_session_names_all_partitions_and_later_answers_only_what_is_new(host: Host) -> None:
    client = Client(host)
    (first,) = fetch(client, 0, 0, {0: 0, 1: 0, 2: 0})
    assert first.session_id > 0
    assert partitions(first) == [0, 1, 2]
    (second,) = fetch(client, first.session_id, 1)
    assert (second.session_id, partitions(second)) == (first.session_id, [])
    Client(host).produce(TEA, index=1)
    (third,) = fetch(client, first.session_id, 2)
    assert partitions(third) == [1]
    (fourth,) = fetch(client, first.session_id, 3, {1: 1})
    assert partitions(fourth) == []


def test_with_nothing_new_it_waits_and_is_woken(host: Host) -> None:
    client = Client(host)
    (first,) = fetch(client, 0, 0, {0: 0, 1: 0})
    assert fetch(client, first.session_id, 1, wait_ms=500) == []
    Client(host).produce(TEA, index=1)
    (answer,) = client.take()
    assert partitions(answer) == [1]


def test_partitions_are_forgotten_and_added(host: Host) -> None:
    client = Client(host)
    (first,) = fetch(client, 0, 0, {0: 0, 1: 0})
    for index in range(3):
        Client(host).produce(TEA, index=index)
    (answer,) = fetch(client, first.session_id, 1, {2: 0}, forget=[0])
    assert partitions(answer) == [1, 2]


def test_a_partition_that_was_served_comes_last_next_time(host: Host) -> None:
    client = Client(host)
    (first,) = fetch(client, 0, 0, {0: 0, 1: 0, 2: 0})
    Client(host).produce(TEA, index=0)
    fetch(client, first.session_id, 1)
    for index in range(3):
        Client(host).produce(TEA, index=index)
    (answer,) = fetch(client, first.session_id, 2)
    assert partitions(answer) == [1, 2, 0]


def test_wrong_epochs_and_unknown_sessions_are_errors(host: Host) -> None:
    client = Client(host)
    (first,) = fetch(client, 0, 0, {0: 0})
    assert fetch(client, first.session_id, 5)[0].error_code == Error.INVALID_FETCH_SESSION_EPOCH
    assert fetch(client, 12345, 1)[0].error_code == Error.FETCH_SESSION_ID_NOT_FOUND
    fetch(client, first.session_id, -1, {0: 0})  # ends it
    assert fetch(client, first.session_id, 1)[0].error_code == Error.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_of_names_cannot_go_on_with_ids(host: Host) -> None:
    client = Client(host)
    (first,) = fetch(client, 0, 0, {0: 0})
    topic_id = host.controller.image.topics["orders"].id
    (answer,) = fetch(client, first.session_id, 1, {1: 0}, version=13, topic=topic_id)
    assert answer.error_code == Error.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_topic_created_again_is_unknown_under_its_old_id(host: Host) -> None:
    client = Client(host)
    topic_id = host.controller.image.topics["other"].id
    (first,) = fetch(client, 0, 0, {0: 0}, version=13, topic=topic_id)
    assert first.responses[0].topic_id == topic_id
    host.controller.delete_topic("other")
    host.controller.create_topic("other", (1, 1), {})
    host.agenda.drain()
    (answer,) = fetch(client, first.session_id, 1, version=13)
    assert answer.responses[0].topic_id == topic_id
    assert answer.responses[0].partitions[0].error_code == Error.UNKNOWN_TOPIC_ID


def test_a_full_cache_gives_up_only_what_was_idle_for_long() -> None:
    sessions = FetchSessions(2, Random(0))
    first = sessions.open(True, 0)
    second = sessions.open(True, 0)
    assert first is not None
    assert second is not None
    assert sessions.open(True, EVICTION_MS) is None
    assert sessions.go_on(first.id, 1, True, EVICTION_MS) is first
    third = sessions.open(True, EVICTION_MS + 1)
    assert third is not None
    assert sessions.go_on(second.id, 1, True, 0) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 2


def test_without_a_free_slot_the_answer_has_no_session() -> None:
    host = make_host(1, {"orders": 1}, configs={"max.incremental.fetch.session.cache.slots": 0})
    (answer,) = fetch(Client(host), 0, 0, {0: 0})
    assert (answer.session_id, partitions(answer)) == (0, [0])
