"""One client's connection: frames in, answers out, one request at a time. No socket here: a transport is handed in.

Bytes are collected as they arrive; nothing is ever allocated because a length says so. A frame that is whole goes to
its handler at once, unless a request is still in flight (parked ones are), an answer waits for the client to read, or
the broker is isolated. Then frames stay in the buffer, so answers keep the order of the requests; when the buffer is
full, the transport is told to stop reading.

Bytes that are no request end the connection with one line in the log, and harm nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from dwell.broker.api.api_versions import unsupported
from dwell.broker.api.table import BY_KEY
from dwell.broker.request import NO_ANSWER, PARKED, Request
from dwell.broker.wire import ProtocolError, frame_length, read_request_header, response_pieces
from dwell.broker.wire.message.cluster import API_VERSIONS
from dwell.errors import logger
from dwell.timer import TimerTask

if TYPE_CHECKING:
    from dwell.broker.broker import Broker

LENGTH_BYTES = 4
# What may lie in the buffer while a request is in flight. Beyond it, reading stops.
MAX_AHEAD_BYTES = 1024 * 1024
# A frame that was begun must be whole by then.
FRAME_LIMIT_MS = 10_000


class Transport(Protocol):
    """What a connection needs of a socket."""

    def write_pieces(self, pieces: list[bytes | memoryview]) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...


@final
class MemoryTransport:
    """For a connection without a socket: keeps what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_paused = False
        self.is_aborted = False

    def write_pieces(self, pieces: list[bytes | memoryview]) -> None:
        self.written.append(b"".join(pieces))

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.is_aborted = True


@final
class Connection:
    __slots__ = (
        "_buffer",
        "_frame_task",
        "_held",
        "_idle_task",
        "_in_flight",
        "_is_closed",
        "_is_full",
        "_is_reading_paused",
        "_used_ms",
        "broker",
        "peer",
        "transport",
    )

    def __init__(self, broker: Broker, transport: Transport, peer: str) -> None:
        self.broker = broker
        self.transport = transport
        # The other end, for the log.
        self.peer = peer
        self._buffer = bytearray()
        # The one request that is being worked on; None between requests.
        self._in_flight: Request | None = None
        self._is_closed = False
        self._is_reading_paused = False
        # The client does not read its answers: no new request until it does.
        self._is_full = False
        # An answer that an isolated broker could not send.
        self._held: list[bytes | memoryview] | None = None
        self._frame_task: TimerTask | None = None
        self._used_ms = broker.now_ms()
        self._idle_task: TimerTask | None = None
        broker.connections.add(self)
        idle_ms = broker.host.config["connections.max.idle.ms"]
        if idle_ms >= 0:
            self._idle_task = broker.host.schedule(idle_ms, self._close_if_idle)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_reading_paused(self) -> bool:
        return self._is_reading_paused

    @property
    def in_flight(self) -> Request | None:
        """The request that is being worked on, or waits."""
        return self._in_flight

    # In

    def feed(self, data: bytes) -> None:
        """Bytes from the client, cut anywhere."""
        if self._is_closed:
            return
        self._buffer += data
        self.pump()

    def pump(self) -> None:
        """Work on the frames in the buffer, as far as may be."""
        if self._held is not None and not self.broker.is_isolated:
            pieces, self._held = self._held, None
            self.transport.write_pieces(pieces)
        try:
            while self._may_work() and (frame := self._next_frame()) is not None:
                self._receive(frame)
        except ProtocolError as error:
            self.close(str(error))
        except Exception as error:
            # A bug of ours: this client loses its connection, nobody else loses anything.
            self.broker.host.on_error(error, self)
            self.close(f"{type(error).__name__} in a handler")
        if not self._is_closed:
            self._regulate()

    def _may_work(self) -> bool:
        return self._in_flight is None and not self._is_full and not self._is_closed and not self.broker.is_isolated

    def _next_frame(self) -> bytes | None:
        """Take a whole frame out of the buffer; None if there is none yet."""
        buffer = self._buffer
        if len(buffer) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + frame_length(buffer, self.broker.host.options.max_request_bytes)
        if len(buffer) < end:
            return None
        if len(buffer) == end:
            # The usual case: hand over the buffer itself instead of copying it.
            frame = bytes(memoryview(buffer)[LENGTH_BYTES:])
            self._buffer = bytearray()
        else:
            frame = bytes(memoryview(buffer)[LENGTH_BYTES:end])
            del buffer[:end]
        return frame

    def _receive(self, frame: bytes) -> None:
        header = read_request_header(frame)
        broker = self.broker
        host = broker.host
        served = BY_KEY.get(header.api_key)
        if served is None:
            raise ProtocolError(f"API {header.api_key} is not served")
        api = served.api
        self._used_ms = now_ms = broker.now_ms()
        if header.api_version not in api.versions:
            if api is not API_VERSIONS:
                raise ProtocolError(f"{api.name} is served in versions {api.versions}, not {header.api_version}")
            self.transport.write_pieces(response_pieces(api, 0, header.correlation_id, unsupported()))
            return
        body = api.request.decoder(header.api_version)(memoryview(frame), header.position)
        request = Request(
            host.next_request_number(),
            self,
            broker,
            api,
            header.api_version,
            header.correlation_id,
            header.client_id,
            body,
            now_ms,
        )
        host.requests.append(request)
        self._in_flight = request
        response = served.handle(request)
        if response is NO_ANSWER:
            request.connection = request.body = None
            self._in_flight = None
        elif response is not PARKED:
            request.answer(response)

    # Out

    def answer(self, request: Request, response: object) -> None:
        """Send the answer to the request in flight, and go on with the next."""
        self._in_flight = None
        if self._is_closed:
            return
        pieces = response_pieces(request.api, request.version, request.correlation_id, response)
        if self.broker.is_isolated:
            self._held = pieces
            return
        self.transport.write_pieces(pieces)
        if request.waited_in is not None and self._buffer:
            # It was parked: nobody is in `pump` now. Frames have collected meanwhile.
            self.broker.host.agenda.put(self.pump)

    def pause_writing(self) -> None:
        """The client does not read: too many bytes wait to be sent."""
        self._is_full = True
        self._regulate()

    def resume_writing(self) -> None:
        self._is_full = False
        self.broker.host.agenda.put(self.pump)

    # Limits

    def _regulate(self) -> None:
        """Stop or start reading, and keep an eye on a frame that was begun."""
        is_stuck = not self._may_work()
        pause = is_stuck and len(self._buffer) > MAX_AHEAD_BYTES
        if pause != self._is_reading_paused:
            self._is_reading_paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()
        is_partial = bool(self._buffer) and not is_stuck
        if is_partial and self._frame_task is None:
            self._frame_task = self.broker.host.schedule_real(FRAME_LIMIT_MS, self._frame_is_late)
        elif not is_partial and self._frame_task is not None:
            self._frame_task.cancel()
            self._frame_task = None

    def _frame_is_late(self) -> None:
        self._frame_task = None
        self.close(f"a frame was begun and not finished within {FRAME_LIMIT_MS:,} ms")

    def _close_if_idle(self) -> None:
        idle_ms = self.broker.host.config["connections.max.idle.ms"]
        left_ms = self._used_ms + idle_ms - self.broker.now_ms()
        if left_ms <= 0 and self._in_flight is None:
            self.close(None)
        else:
            self._idle_task = self.broker.host.schedule(left_ms if left_ms > 0 else idle_ms, self._close_if_idle)

    # The end

    def close(self, reason: str | None) -> None:
        """End the connection; a reason is worth a line in the log."""
        if self._is_closed:
            return
        if reason is not None:
            logger.info("broker %s closes the connection of %s: %s", self.broker.id, self.peer, reason)
        self.transport.abort()
        self.lost()

    def lost(self) -> None:
        """The other end is gone: what it waits for is cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        self.broker.connections.discard(self)
        for task in (self._frame_task, self._idle_task):
            if task is not None:
                task.cancel()
        self._frame_task = self._idle_task = None
        request, self._in_flight = self._in_flight, None
        if request is not None:
            request.abandon()
        self._buffer = bytearray()

    def take(self) -> list[bytes]:
        """What was written since the last call; for a connection without a socket."""
        assert isinstance(self.transport, MemoryTransport)
        written, self.transport.written = self.transport.written, []
        return written

    def __repr__(self) -> str:
        return f"<connection of {self.peer} to broker {self.broker.id}>"
