"""Between asyncio's transport and a connection: a fake transport in the place of a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dwell.broker.host import Host
from dwell.broker.server.connection import MAX_AHEAD_BYTES
from dwell.broker.server.listener import PAUSED_LOOK_MS, SocketConnection
from dwell.broker.wire import request_frame
from dwell.broker.wire.message.fetch import FETCH
from tests.broker.core import make_host


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return None

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


@pytest.fixture
def host() -> Host:
    return make_host(1, {"orders": 1})


def accept(host: Host) -> tuple[SocketConnection, FakeTransport]:
    connection, transport = SocketConnection(host.brokers[0]), FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def test_nobody_looks_for_a_client_that_has_left(host: Host) -> None:
    connection, _ = accept(host)
    request = FETCH.Request
    asked = request.FetchTopic(topic="orders", partitions=[request.FetchPartition(partition=0, partition_max_bytes=1)])
    wait = request_frame(FETCH, 11, 1, "me", request(max_wait_ms=10**9, min_bytes=1, topics=[asked]))
    connection.data_received(wait)
    before = host._timer.size
    connection.data_received(bytes(MAX_AHEAD_BYTES + 1))
    assert host._timer.size == before + 1
    host.advance(3 * PAUSED_LOOK_MS)
    assert host._timer.size == before + 1  # one look at a time
    connection.connection_lost(None)
    host.advance(PAUSED_LOOK_MS)
    assert host._timer.size == 0


def test_a_client_that_was_accepted_while_the_broker_died_is_hung_up_on(host: Host) -> None:
    host.kill(0)
    _, transport = accept(host)
    assert transport.is_aborted
    assert not host.brokers[0].connections
