"""What a produce waits for, and what it is told."""

from __future__ import annotations

import gc

import pytest

from dwell.broker.host import Host
from dwell.broker.log.log import Log
from dwell.broker.waiting import Waiting
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.produce import PRODUCE
from tests.broker.core import Client, error, led, make_host, records

TEA = records(b"tea")


@pytest.fixture
def host() -> Host:
    return make_host(3, {"orders": {"partitions": 2, "replication": 3, "min_insync": 2}})


def waiting(host: Host) -> list[str]:
    return [Waiting.of(operation).unmet for operation in host.parked]


def test_with_followers_that_fetch_it_is_answered_at_once(host: Host) -> None:
    (answer,) = Client(host).produce(TEA)
    assert (error(answer), answer.base_offset) == ("NONE", 0)
    assert led(host).high_watermark == 1


def test_it_waits_for_a_frozen_follower_and_says_so(host: Host) -> None:
    host.freeze(1)
    client = Client(host)
    assert client.produce(TEA) == []
    assert waiting(host) == ["orders-0 must reach 1; high watermark 0, replica 1 is at 0, frozen"]
    host.thaw(1)
    host.agenda.drain()
    (answer,) = client.produced()
    assert error(answer) == "NONE"
    assert not host.parked


def test_it_expires_at_its_deadline_and_the_append_stays(host: Host) -> None:
    host.freeze(1)
    client = Client(host)
    client.produce(TEA, timeout_ms=700)
    assert host.advance(699) == []
    (expired,) = host.advance(1)
    assert (expired.kind, expired.left_ms) == ("produce", 0)
    (answer,) = client.produced()
    assert (error(answer), answer.base_offset) == ("REQUEST_TIMED_OUT", 0)
    assert (led(host).log.end_offset, led(host).high_watermark) == (1, 0)


def test_a_follower_whose_pause_ends_at_the_deadline_is_in_time(host: Host) -> None:
    host.brokers[1].lag_ms = 700
    client = Client(host)
    client.produce(TEA, timeout_ms=700)
    assert host.advance(700) == []
    (answer,) = client.produced()
    assert error(answer) == "NONE"


def test_steps_go_from_deadline_to_deadline_not_purgatory_by_purgatory(host: Host) -> None:
    host.brokers[1].lag_ms = 5
    client = Client(host)
    client.produce(TEA, timeout_ms=700)
    assert host.advance(10_000) == []
    (answer,) = client.produced()
    assert error(answer) == "NONE"
    assert host.requests[-1].answered_ms == 5


def test_with_acks_one_nobody_waits(host: Host) -> None:
    host.freeze(1)
    host.freeze(2)
    (answer,) = Client(host).produce(TEA, acks=1)
    assert error(answer) == "NONE"
    assert led(host).high_watermark == 0


def test_with_acks_zero_there_is_no_answer_and_an_error_ends_the_connection(host: Host) -> None:
    client = Client(host)
    assert client.produce(TEA, acks=0) == []
    assert led(host).high_watermark == 1
    client.unanswered()
    assert not client.connection.is_closed
    client.produce(TEA, "nothing", acks=0)
    assert client.connection.is_closed


def test_a_slow_follower_leaves_the_isr_and_what_waited_for_it_completes(host: Host) -> None:
    host.freeze(1)
    client = Client(host)
    client.produce(TEA, timeout_ms=60_000)
    assert host.advance(30_000) == []
    assert client.produced() == []
    host.advance(1)
    (answer,) = client.produced()
    assert error(answer) == "NONE"
    assert led(host).image.isr == (0, 2)


def test_too_few_in_sync_refuse_it_before_the_append(host: Host) -> None:
    host.kill(1)
    host.kill(2)
    (answer,) = Client(host).produce(TEA)
    assert error(answer) == "NOT_ENOUGH_REPLICAS"
    assert led(host).log.end_offset == 0


def test_below_min_isr_the_high_watermark_stands_and_the_wait_expires(host: Host) -> None:
    host.freeze(1)
    host.freeze(2)
    client = Client(host)
    client.produce(TEA, timeout_ms=40_000)
    host.advance(30_001)
    assert led(host).image.isr == (0,)
    assert waiting(host) == ["orders-0 must reach 1; high watermark 0, 1 of 2 replicas in sync"]
    assert len(host.advance(9_999)) == 1
    (answer,) = client.produced()
    assert error(answer) == "REQUEST_TIMED_OUT"


def test_an_isr_that_shrinks_after_the_append_is_said_so(host: Host) -> None:
    Client(host).produce(TEA)
    host.kill(1)
    host.kill(2)
    host.agenda.drain()
    assert led(host).reached(1) is Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert led(host).reached(2) is None


def test_a_moved_leader_dooms_it(host: Host) -> None:
    host.freeze(1)
    client = Client(host)
    client.produce(TEA)
    host.controller.move_leader("orders", 0, 2)
    host.agenda.drain()
    (answer,) = client.produced()
    assert error(answer) == "NOT_LEADER_OR_FOLLOWER"


def test_a_deleted_topic_dooms_it(host: Host) -> None:
    host.freeze(1)
    client = Client(host)
    client.produce(TEA)
    host.controller.delete_topic("orders")
    host.agenda.drain()
    (answer,) = client.produced()
    assert error(answer) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_killed_broker_cancels_it_without_an_answer(host: Host) -> None:
    host.freeze(1)
    client = Client(host)
    client.produce(TEA)
    host.kill(0)
    host.agenda.drain()
    assert client.connection.is_closed
    assert client.take() == []
    assert not host.parked
    assert host.advance(10_000) == []


def test_a_client_that_goes_away_takes_its_request_along(host: Host) -> None:
    host.freeze(1)
    client = Client(host)
    client.produce(TEA)
    client.connection.lost()
    assert not host.parked
    assert host.brokers[0].purgatory("produce").num_delayed == 0


def test_each_partition_is_decided_by_itself(host: Host) -> None:
    host.controller.move_leader("orders", 1, 0)
    host.freeze(1)
    client = Client(host)
    client.produce(TEA, acks=1)
    request = PRODUCE.Request
    data = [request.PartitionProduceData(index=index, records=TEA) for index in (0, 1, 7)]
    topics = [request.TopicProduceData(name="orders", partition_data=data)]
    client.send(PRODUCE, 9, request(acks=-1, timeout_ms=500, topic_data=topics))
    assert sorted(waiting(host)[0].split("; ")[::2]) == ["orders-0 must reach 2", "orders-1 must reach 1"]
    host.advance(500)
    (answer,) = client.take()
    found = {one.index: error(one) for one in answer.responses[0].partition_responses}
    assert found == {0: "REQUEST_TIMED_OUT", 1: "REQUEST_TIMED_OUT", 7: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_a_duplicate_gets_the_offsets_of_the_first(host: Host) -> None:
    client = Client(host)
    first = records(b"tea", producer_id=5, producer_epoch=0, base_sequence=0)
    assert client.produce(first)[0].base_offset == 0
    assert client.produce(records(b"milk"))[0].base_offset == 1
    (again,) = client.produce(first)
    assert (error(again), again.base_offset) == ("NONE", 0)
    assert led(host).log.end_offset == 2
    (gap,) = client.produce(records(b"tea", producer_id=5, producer_epoch=0, base_sequence=7))
    assert error(gap) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_new_leader_knows_the_producers_of_the_old_one(host: Host) -> None:
    first = records(b"tea", producer_id=5, producer_epoch=0, base_sequence=0)
    Client(host).produce(first)
    host.controller.move_leader("orders", 0, 2)
    host.agenda.drain()
    (again,) = Client(host, 2).produce(first)
    assert (error(again), again.base_offset) == ("NONE", 0)
    assert led(host).log.end_offset == 1


@pytest.mark.parametrize(
    ("batch", "acks", "expected"),
    [
        (TEA, 2, "INVALID_REQUIRED_ACKS"),
        (b"", 1, "INVALID_RECORD"),
        (TEA[:-1] + b"\1", 1, "CORRUPT_MESSAGE"),
        (records(b"x" * 2_000_000), 1, "MESSAGE_TOO_LARGE"),
    ],
    ids=["acks", "nothing", "checksum", "size"],
)
def test_what_is_refused(host: Host, batch: bytes, acks: int, expected: str) -> None:
    (answer,) = Client(host).produce(batch, acks=acks)
    assert (error(answer), answer.base_offset) == (expected, -1)
    assert led(host).log.end_offset == 0


def test_a_broker_that_does_not_lead_says_who_does(host: Host) -> None:
    client = Client(host, 1)
    (answer,) = client.produce(TEA, version=10)
    assert error(answer) == "NOT_LEADER_OR_FOLLOWER"
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (0, 0)


def test_full_memory_refuses_records_until_some_are_deleted() -> None:
    host = make_host(1, {"orders": 1}, memory_bytes=200)
    client = Client(host)
    assert error(client.produce(TEA)[0]) == "NONE"
    assert error(client.produce(TEA)[0]) == "NONE"
    assert error(client.produce(TEA)[0]) == "KAFKA_STORAGE_ERROR"
    led(host).delete_before(1)
    assert error(client.produce(TEA)[0]) == "NONE"


def test_a_compacted_topic_wants_keys_and_append_time_is_the_clusters() -> None:
    host = make_host(1, {"orders": {"configs": {"cleanup.policy": "compact"}}, "stamped": 1}, epoch_ms=5_000)
    assert error(Client(host).produce(TEA)[0]) == "INVALID_RECORD"
    timed = make_host(1, {"orders": {"configs": {"message.timestamp.type": "LogAppendTime"}}}, epoch_ms=5_000)
    timed.advance(7)
    (answer,) = Client(timed).produce(TEA)
    assert answer.log_append_time_ms == 5_007


def test_the_past_does_not_keep_the_records_of_a_deleted_topic(host: Host) -> None:
    Client(host).produce(TEA)
    logs = {id(broker.partitions["orders", 0].log) for broker in host.brokers}
    host.controller.delete_topic("orders")
    host.agenda.drain()
    gc.collect()
    assert host.requests
    assert not [log for log in gc.get_objects() if isinstance(log, Log) and id(log) in logs]


def test_a_new_leader_says_whom_it_has_not_heard_of(host: Host) -> None:
    Client(host).produce(TEA)
    host.freeze(2)
    host.controller.move_leader("orders", 0, 1)
    host.agenda.drain()
    Client(host, 1).produce(TEA)
    assert waiting(host) == ["orders-0 must reach 2; high watermark 0, replica 2 has not fetched yet, frozen"]


def test_a_replica_that_is_about_to_join_is_waited_for_and_named(host: Host) -> None:
    host.kill(2)
    host.controller.delay_ms = 1_000
    host.agenda.drain()
    host.restart(2)
    host.advance(1_000)
    assert led(host).pending_isr == (0, 1, 2)
    host.freeze(2)
    Client(host).produce(TEA)
    assert waiting(host) == ["orders-0 must reach 1; high watermark 0, replica 2 is at 0, frozen"]
