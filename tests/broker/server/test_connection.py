"""Frames in, answers out: cut anywhere, malformed, too fast and too slow."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwell.broker.api.api_versions import ADVERTISED_FROM
from dwell.broker.api.table import SERVED
from dwell.broker.host import Host
from dwell.broker.server.connection import FRAME_LIMIT_MS, MAX_AHEAD_BYTES, MemoryTransport
from dwell.broker.wire import Error, read_response, request_frame
from dwell.broker.wire.message.cluster import API_VERSIONS, METADATA
from dwell.broker.wire.message.fetch import FETCH
from tests.broker.core import Client, make_host, records

ASK = request_frame(
    API_VERSIONS, 3, 7, "me", API_VERSIONS.Request(client_software_name="x", client_software_version="1")
)


@pytest.fixture
def host() -> Host:
    return make_host(1, {"orders": 1})


@given(st.lists(st.integers(0, 3 * len(ASK)), max_size=6))
def test_frames_cut_anywhere_are_the_same_frames(cuts: list[int]) -> None:
    host = make_host(1)
    connection = host.connect()
    stream = ASK * 3
    answers: list[bytes] = []
    edges = [0, *sorted(cuts), len(stream)]
    for start, end in pairwise(edges):
        answers += host.receive(connection, stream[start:end])
    assert len(answers) == 3
    assert len(set(answers)) == 1
    host.close()


def test_what_is_served_is_what_the_table_says(host: Host) -> None:
    (frame,) = host.receive(host.connect(), ASK)
    _, answer = read_response(API_VERSIONS, 3, frame[4:])
    assert {(one.api_key, one.min_version, one.max_version) for one in answer.api_keys} == {
        (served.api.key, ADVERTISED_FROM.get(served.api.key, served.api.versions.first), served.api.versions.last)
        for served in SERVED
    }


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(host: Host) -> None:
    connection = host.connect()
    (frame,) = host.receive(connection, struct.pack(">ihhihx", 11, 18, 99, 5, -1))
    correlation, answer = read_response(API_VERSIONS, 0, frame[4:])
    assert (correlation, answer.error_code) == (5, Error.UNSUPPORTED_VERSION)
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]
    assert not connection.is_closed


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 0, 2, 1, -1),
        struct.pack(">ihhih", 10, 3, 12, 1, 500),
        struct.pack(">ihhih", 10, 0, 9, 1, -1),
    ],
    ids=["minus one", "zero", "huge", "http", "no such api", "old version", "client id too long", "cut body"],
)
def test_malformed_bytes_end_their_connection_and_no_other(
    host: Host, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="dwell")
    other = Client(host)
    connection = host.connect()
    assert host.receive(connection, data) == []
    assert connection.is_closed
    assert len([record for record in caplog.records if "closes the connection" in record.message]) == 1
    assert host.receive(connection, ASK) == []
    assert other.produce(records(b"tea"))[0].error_code == Error.NONE


def test_a_frame_that_is_never_finished_ends_the_connection(host: Host) -> None:
    connection = host.connect()
    host.receive(connection, ASK[:10])
    host.advance(FRAME_LIMIT_MS - 1)
    assert not connection.is_closed
    host.advance(1)
    assert connection.is_closed


def test_a_busy_client_whose_bytes_never_end_with_a_frame_stays_connected(host: Host) -> None:
    connection = host.connect()
    host.receive(connection, ASK[:5])
    for _ in range(50):
        host.advance(FRAME_LIMIT_MS // 10)
        assert len(host.receive(connection, ASK[5:] + ASK[:5])) == 1
    host.advance(2 * FRAME_LIMIT_MS)
    assert connection.is_closed  # the last one was never finished


def test_a_slow_frame_that_is_finished_in_time_is_answered(host: Host) -> None:
    connection = host.connect()
    for place in range(len(ASK)):
        host.advance(FRAME_LIMIT_MS // len(ASK) - 1)
        answers = host.receive(connection, ASK[place : place + 1])
    assert len(answers) == 1
    host.advance(FRAME_LIMIT_MS)
    assert not connection.is_closed


def test_an_idle_connection_is_closed_and_a_used_one_is_not(host: Host) -> None:
    idle, used, waits = host.connect(), host.connect(), Client(host)
    waits.fetch(0, max_wait_ms=2_000_000)
    host.advance(599_999)
    host.receive(used, ASK)
    host.advance(1)
    assert idle.is_closed
    assert not used.is_closed
    assert not waits.connection.is_closed
    host.advance(600_000)
    assert used.is_closed


def test_reading_stops_while_a_request_waits_and_too_much_has_come(host: Host) -> None:
    client = Client(host)
    transport = client.connection.transport
    assert isinstance(transport, MemoryTransport)
    client.fetch(0, max_wait_ms=100)
    named = API_VERSIONS.Request(client_software_name="x" * 10_000, client_software_version="1")
    long = request_frame(API_VERSIONS, 3, 7, "me", named)
    count = MAX_AHEAD_BYTES // len(long) + 1
    host.receive(client.connection, long * count)
    assert transport.is_paused
    host.advance(100)
    assert not transport.is_paused
    assert len(client.connection.take()) == 1 + count


def test_a_client_that_does_not_read_gets_no_more_work_done(host: Host) -> None:
    connection = host.connect()
    connection.pause_writing()
    assert host.receive(connection, ASK) == []
    connection.resume_writing()
    host.agenda.drain()
    assert len(connection.take()) == 1


def test_an_isolated_broker_is_silent_until_it_is_healed() -> None:
    host = make_host(3, {"orders": {"replication": 3}})
    client = Client(host)
    host.freeze(1)
    client.produce(records(b"tea"), timeout_ms=100)
    host.isolate(0)
    host.advance(200)
    assert client.take() == []
    late = host.connect(0)
    assert host.receive(late, ASK) == []
    host.heal(0)
    host.agenda.drain()
    assert len(late.take()) == 1
    (answer,) = client.produced()
    assert Error(answer.error_code) is Error.REQUEST_TIMED_OUT


def test_a_bug_in_a_handler_ends_the_connection_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[BaseException] = []
    host = make_host(1, {"orders": 1})
    host.on_error = lambda error, source: errors.append(error)
    monkeypatch.setattr(type(host), "default_replication", property(lambda self: 1 / 0), raising=False)
    client = Client(host)
    client.send(METADATA, 4, METADATA.Request(topics=[METADATA.Request.MetadataRequestTopic(name="new")]))
    assert client.connection.is_closed
    assert isinstance(errors[0], (ZeroDivisionError, AttributeError))


def test_a_parked_request_whose_client_has_left_is_gone(host: Host) -> None:
    client = Client(host)
    client.fetch(0, max_wait_ms=1_000)
    assert len(host.parked) == 1
    client.connection.lost()
    assert not host.parked
    assert host.advance(2_000) == []
    assert FETCH.key == 1
