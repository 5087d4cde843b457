"""What a fetch waits for: enough bytes, or a reason not to wait."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.host import Host
from dwell.broker.record.batch import read_batches
from dwell.broker.record.record import read_records
from dwell.broker.waiting import Waiting
from dwell.broker.wire.message.fetch import FETCH
from tests.broker.core import Client, error, led, make_host, records

TEA = records(b"tea")


@pytest.fixture
def host() -> Host:
    return make_host(3, {"orders": {"partitions": 2, "replication": 3}})


def values(answer: Any) -> list[bytes | None]:
    return [record.value for batch in read_batches(answer.records) for record in read_records(batch)]


def test_what_is_there_is_answered_at_once(host: Host) -> None:
    Client(host).produce(TEA)
    (answer,) = Client(host).fetch(0)
    assert (values(answer), answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (
        [b"tea"],
        1,
        1,
        0,
    )


def test_an_empty_log_makes_it_wait_until_a_produce_fills_it(host: Host) -> None:
    reader = Client(host)
    assert reader.fetch(0) == []
    (parked,) = host.parked
    assert Waiting.of(parked).unmet == "0 of 1 bytes in orders-0 from 0"
    Client(host).produce(TEA)
    (answer,) = reader.fetched()
    assert values(answer) == [b"tea"]
    assert host.requests[0].completed_by == "orders-0"


def test_time_runs_out_with_what_is_there_and_no_error(host: Host) -> None:
    Client(host).produce(TEA)
    reader = Client(host)
    assert reader.fetch(0, min_bytes=10_000, max_wait_ms=500) == []
    (parked,) = host.parked
    assert Waiting.of(parked).unmet == f"{len(TEA)} of 10,000 bytes in orders-0 from 0"
    assert host.advance(499) == []
    assert [wait.kind for wait in host.advance(1)] == ["fetch"]
    (answer,) = reader.fetched()
    assert (error(answer), values(answer)) == ("NONE", [b"tea"])


def test_nothing_at_all_is_an_empty_set_of_records_not_null(host: Host) -> None:
    (answer,) = Client(host).fetch(0, max_wait_ms=0)
    assert answer.records is not None
    assert bytes(answer.records) == b""


def test_bytes_of_all_partitions_count_each_up_to_its_limit(host: Host) -> None:
    host.controller.move_leader("orders", 1, 0)
    reader = Client(host)
    request = FETCH.Request
    asked = [request.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=80) for index in (0, 1)]
    topics = [request.FetchTopic(topic="orders", partitions=asked)]
    reader.send(FETCH, 12, request(max_wait_ms=500, min_bytes=150, topics=topics))
    writer = Client(host)
    for _ in range(3):
        writer.produce(TEA, index=0)
    assert reader.take() == []  # 80 of 150, however many there are in partition 0
    writer.produce(records(b"x" * 50), index=1)
    assert len(reader.take()) == 1


def test_what_is_not_yet_replicated_is_not_read(host: Host) -> None:
    host.freeze(1)
    reader = Client(host)
    reader.fetch(0)
    Client(host).produce(TEA, acks=1)
    assert reader.fetched() == []
    host.thaw(1)
    host.agenda.drain()
    assert values(reader.fetched()[0]) == [b"tea"]


def test_between_the_high_watermark_and_the_log_end_it_waits(host: Host) -> None:
    host.freeze(1)
    writer = Client(host)
    writer.produce(TEA, acks=1)
    writer.produce(TEA, acks=1)
    reader = Client(host)
    assert reader.fetch(1) == []
    host.thaw(1)
    host.agenda.drain()
    assert values(reader.fetched()[0]) == [b"tea"]


def test_a_first_batch_larger_than_allowed_is_returned_alone(host: Host) -> None:
    writer = Client(host)
    for size in (5_000, 10, 10):
        writer.produce(records(b"x" * size))
    (answer,) = Client(host).fetch(0, max_bytes=100)
    assert [len(value or b"") for value in values(answer)] == [5_000]
    (answer,) = Client(host).fetch(1, max_bytes=100)
    assert [len(value or b"") for value in values(answer)] == [10]


def test_an_offset_inside_a_batch_gets_the_whole_batch(host: Host) -> None:
    Client(host).produce(records(b"a", b"b", b"c"))
    (answer,) = Client(host).fetch(2)
    assert values(answer) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"offset": 5}, "OFFSET_OUT_OF_RANGE"),
        ({"offset": 0, "topic": "nothing"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"offset": 0, "index": 9}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"offset": 0, "index": 1}, "NOT_LEADER_OR_FOLLOWER"),
        ({"offset": 0, "current_leader_epoch": 3}, "UNKNOWN_LEADER_EPOCH"),
    ],
)
def test_an_error_is_answered_at_once(host: Host, fields: dict[str, Any], expected: str) -> None:
    (answer,) = Client(host).fetch(**fields)
    assert error(answer) == expected


def test_an_old_leader_epoch_is_fenced(host: Host) -> None:
    host.controller.move_leader("orders", 0, 1)
    host.controller.move_leader("orders", 0, 0)
    (answer,) = Client(host).fetch(0, current_leader_epoch=0)
    assert error(answer) == "FENCED_LEADER_EPOCH"


def test_a_moved_leader_ends_the_wait_and_says_who_leads(host: Host) -> None:
    reader = Client(host)
    reader.fetch(0)
    host.controller.move_leader("orders", 0, 2)
    host.agenda.drain()
    (answer,) = reader.fetched()
    assert (error(answer), answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (
        "NOT_LEADER_OR_FOLLOWER",
        2,
        1,
    )


def test_a_deleted_topic_ends_the_wait(host: Host) -> None:
    reader = Client(host)
    reader.fetch(0)
    host.controller.delete_topic("orders")
    host.agenda.drain()
    assert error(reader.fetched()[0]) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_deleted_records_end_the_wait_of_who_wanted_them(host: Host) -> None:
    writer = Client(host)
    for _ in range(3):
        writer.produce(TEA)
    reader = Client(host)
    reader.fetch(1, min_bytes=10_000)
    led(host).delete_before(2)
    host.agenda.drain()
    assert error(reader.fetched()[0]) == "OFFSET_OUT_OF_RANGE"


def test_a_client_that_read_what_a_new_leader_never_had_is_told_where_to_go_back_to(host: Host) -> None:
    Client(host).produce(TEA)
    host.controller.move_leader("orders", 0, 1)
    host.agenda.drain()
    Client(host, 1).produce(TEA)
    (answer,) = Client(host, 1).fetch(2, last_fetched_epoch=0)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)


def test_many_parked_fetches_are_all_woken_by_one_produce(host: Host) -> None:
    readers = [Client(host) for _ in range(200)]
    for reader in readers:
        reader.fetch(0)
    assert len(host.parked) == 200
    Client(host).produce(TEA)
    assert all(values(reader.fetched()[0]) == [b"tea"] for reader in readers)


def test_one_request_is_in_flight_and_answers_keep_their_order(host: Host) -> None:
    client = Client(host)
    client.fetch(0)
    client.fetch(0, max_wait_ms=0)
    client.produce(TEA, acks=1)
    assert client.take() == []
    assert led(host).log.end_offset == 0  # not even begun
    host.advance(500)
    first, second, third = client.take()
    assert hasattr(first, "session_id")
    assert hasattr(second, "session_id")
    assert third.responses[0].partition_responses[0].base_offset == 0
