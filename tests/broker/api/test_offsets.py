"""ListOffsets, OffsetForLeaderEpoch and InitProducerId."""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.host import Host
from dwell.broker.record.record import Record, write_batch
from dwell.broker.wire import Error
from dwell.broker.wire.message.fetch import OFFSET_FOR_LEADER_EPOCH
from dwell.broker.wire.message.produce import INIT_PRODUCER_ID
from tests.broker.core import Client, error, led, make_host, records


@pytest.fixture
def host() -> Host:
    made = make_host(3, {"orders": {"replication": 3}})
    for start in (1_000, 2_000, 3_000):
        batch = write_batch([Record(offset=0, timestamp_ms=start + ms, key=None, value=b"x") for ms in (0, 500)])
        Client(made).produce(batch.data)
    return made


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_ms"),
    [
        (-1, 6, -1),
        (-2, 0, -1),
        (-3, 5, 3_500),
        (-4, 0, -1),
        (0, 0, 1_000),
        (1_001, 1, 1_500),
        (2_501, 4, 3_000),
        (3_501, -1, -1),
    ],
)
def test_offsets_by_time(host: Host, timestamp: int, offset: int, found_ms: int) -> None:
    answer = Client(host).list_offsets(timestamp)
    assert (error(answer), answer.offset, answer.timestamp) == ("NONE", offset, found_ms)


def test_the_latest_offset_is_the_high_watermark(host: Host) -> None:
    host.freeze(1)
    Client(host).produce(records(b"tea"), acks=1)
    assert Client(host).list_offsets(-1).offset == 6


def test_errors_of_leaders_and_epochs(host: Host) -> None:
    assert error(Client(host, 1).list_offsets(-1)) == "NOT_LEADER_OR_FOLLOWER"
    assert error(Client(host).list_offsets(-1, "none")) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(Client(host).list_offsets(-1, current_leader_epoch=4)) == "UNKNOWN_LEADER_EPOCH"
    host.controller.move_leader("orders", 0, 1)
    host.controller.move_leader("orders", 0, 0)
    assert error(Client(host).list_offsets(-1, current_leader_epoch=0)) == "FENCED_LEADER_EPOCH"
    assert error(Client(host).list_offsets(-9)) == "UNSUPPORTED_VERSION"


def test_a_new_leader_that_does_not_know_the_high_watermark_says_so(host: Host) -> None:
    host.freeze(2)
    Client(host).produce(records(b"tea"), acks=1)
    host.freeze(0)
    host.controller.move_leader("orders", 0, 1)
    host.agenda.drain()
    assert led(host).high_watermark < led(host).epoch_start
    assert error(Client(host, 1).list_offsets(-1)) == "OFFSET_NOT_AVAILABLE"
    assert error(Client(host, 1).list_offsets(-1, version=4)) == "LEADER_NOT_AVAILABLE"
    assert Client(host, 1).list_offsets(-2).offset == 0
    host.thaw(0)
    host.thaw(2)
    host.agenda.drain()
    assert Client(host, 1).list_offsets(-1).offset == 7


def ask(client: Client, epoch: int) -> Any:
    request = OFFSET_FOR_LEADER_EPOCH.Request
    asked = request.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    topics = [request.OffsetForLeaderTopic(topic="orders", partitions=[asked])]
    return client.call(OFFSET_FOR_LEADER_EPOCH, 4, topics=topics).topics[0].partitions[0]


def test_where_an_epoch_ends(host: Host) -> None:
    host.controller.move_leader("orders", 0, 1)
    host.agenda.drain()
    Client(host, 1).produce(records(b"tea"))
    client = Client(host, 1)
    assert [(ask(client, epoch).leader_epoch, ask(client, epoch).end_offset) for epoch in (0, 1, 2)] == [
        (0, 6),
        (1, 7),
        (-1, -1),
    ]
    assert error(ask(Client(host), 0)) == "NOT_LEADER_OR_FOLLOWER"


def test_each_producer_gets_an_id_of_its_own(host: Host) -> None:
    ids = [Client(host, broker).call(INIT_PRODUCER_ID, 4, transactional_id=None).producer_id for broker in (0, 1, 0)]
    assert ids == [0, 1, 2]
    refused = Client(host).call(INIT_PRODUCER_ID, 4, transactional_id="t", transaction_timeout_ms=1)
    assert refused.error_code == Error.INVALID_REQUEST
