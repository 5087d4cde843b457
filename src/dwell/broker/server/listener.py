"""A broker's port on an event loop."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
import weakref
from typing import TYPE_CHECKING, final

from dwell.broker.server.connection import Connection
from dwell.errors import InvalidArgument, logger

if TYPE_CHECKING:
    from dwell.broker.broker import Broker

BACKLOG = 1024
# Bytes that wait to be sent to a client before no more of its requests are worked on.
MAX_UNSENT_BYTES = 8 * 1024 * 1024
# Pieces of an answer are joined up to this size: one call for a small answer, no copy of a large one.
JOIN_BYTES = 64 * 1024
# How often a client is looked for whose connection is not read from.
PAUSED_LOOK_MS = 1_000

_SOCKETS: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_in_child() -> None:
    """A forked process must not keep ports open that its parent closes."""
    for one in list(_SOCKETS):
        one.close()


if hasattr(os, "register_at_fork"):  # where processes can fork
    os.register_at_fork(after_in_child=_close_in_child)


@final
class Port:
    """A port that stays ours while the broker is down.

    A second socket is bound to it that never listens: the system refuses connections meanwhile, and gives the port to
    nobody else.
    """

    def __init__(self, host: str, number: int) -> None:
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._host = host
        self._keeper = self._bind(number)
        self.number: int = self._keeper.getsockname()[1]

    def listen(self) -> socket.socket:
        bound = self._bind(self.number)
        bound.listen(BACKLOG)
        bound.setblocking(False)
        return bound

    def close(self) -> None:
        self._keeper.close()

    def _bind(self, number: int) -> socket.socket:
        bound = socket.socket(self._family, socket.SOCK_STREAM)
        _SOCKETS.add(bound)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "darwin":
            # Linux lets two sockets share a port as long as one listens; BSD wants to be told so.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            bound.bind((self._host, number))
        except (OSError, OverflowError) as error:
            bound.close()
            words = getattr(error, "strerror", None) or "ports are 0 to 65,535"
            raise InvalidArgument(f"{self._host}:{number} cannot be had: {words}") from error
        return bound


@final
class Listener:
    """Accepts connections for one broker while it is up."""

    def __init__(self, broker: Broker, port: Port, loop: asyncio.AbstractEventLoop) -> None:
        self.broker = broker
        self._port = port
        self._loop = loop
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        self._server = await self._loop.create_server(lambda: SocketConnection(self.broker), sock=self._port.listen())

    def stop(self) -> None:
        """Accept no more; connections are the broker's business."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


@final
class SocketConnection(asyncio.Protocol):
    """Between asyncio's transport and our connection."""

    __slots__ = ("_broker", "_connection", "_is_receiving", "_is_watched", "_out", "_transport")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._connection: Connection | None = None
        self._transport: asyncio.Transport | None = None
        # Answers that are not sent yet: those of one turn go out together.
        self._out: list[bytes | memoryview] = []
        self._is_receiving = False
        # Somebody looks now and then whether the client is still there.
        self._is_watched = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host = self._broker.host
        if not self._broker.is_alive:
            # Accepted in the moment the broker went down.
            transport.abort()
            return
        limit = host.options.max_connections
        if sum(len(broker.connections) for broker in host.brokers) >= limit:
            logger.warning("broker %s refuses a connection: max_connections=%s", self._broker.id, limit)
            transport.abort()
            return
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        peer = transport.get_extra_info("peername")
        self._connection = Connection(self._broker, self, f"{peer[0]}:{peer[1]}" if peer else "nobody")

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._is_receiving = True
            self._connection.feed(data)
            self._is_receiving = False
            if self._out:
                self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        if self._connection is not None:
            self._connection.lost()

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()

    # What a connection asks of its transport

    def write_pieces(self, pieces: list[bytes | memoryview]) -> None:
        if not self._out and not self._is_receiving:
            self._broker.host.agenda.put_last(self._flush)
        self._out += pieces

    def _flush(self) -> None:
        pieces, self._out = self._out, []
        if not pieces:
            return
        assert self._transport is not None
        if sum(map(len, pieces)) <= JOIN_BYTES:
            self._transport.write(b"".join(pieces))
            return
        # Large pieces are handed to the system one by one, small neighbours together.
        small: list[bytes | memoryview] = []
        for piece in pieces:
            if len(piece) < JOIN_BYTES:
                small.append(piece)
                continue
            if small:
                self._transport.write(b"".join(small))
                small = []
            self._transport.write(piece)
        if small:
            self._transport.write(b"".join(small))

    def pause_reading(self) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.pause_reading()
            if not self._is_watched:
                self._watch()

    def resume_reading(self) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        assert self._transport is not None
        if self._out:
            self._flush()
        self._transport.abort()

    # A peer that closes while reading is paused

    def _watch(self) -> None:
        self._is_watched = True
        self._broker.host.schedule_real(PAUSED_LOOK_MS, self._look)

    def _look(self) -> None:
        connection = self._connection
        self._is_watched = False
        if connection is not None and connection.is_reading_paused and not connection.is_closed:
            self._look_for_end()
            self._watch()

    def _look_for_end(self) -> None:
        """End the connection if the other end has closed: with reading paused, the loop does not notice."""
        assert self._transport is not None
        peer = self._transport.get_extra_info("socket")
        if peer is None or peer.fileno() < 0 or not hasattr(select, "POLLRDHUP"):
            return
        poll = select.poll()
        poll.register(peer.fileno(), select.POLLRDHUP)
        if poll.poll(0):
            self._transport.abort()
