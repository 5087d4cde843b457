"""Frames: a length of four bytes, a header, a message.

request header    v1: api_key int16, api_version int16, correlation_id int32, client_id string (null allowed)
                  v2, if the request's version is flexible: the same and tagged fields; client_id keeps its old form
response header   v0: correlation_id int32
                  v1, if the version is flexible: the same and tagged fields
                  an ApiVersions response always has v0, so that a client of any age can read it

The length counts what follows it. Nothing here reads a socket; a connection collects bytes as they arrive and never
allocates what a length promises.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from dwell.broker.wire.api import Api
from dwell.broker.wire.codec import Buffer, _skip_tags
from dwell.broker.wire.error import ProtocolError
from dwell.broker.wire.message import APIS
from dwell.broker.wire.message.cluster import API_VERSIONS

# Kafka's socket.request.max.bytes.
MAX_FRAME_BYTES = 100 * 1024 * 1024
# For a connection that has not said who it is or what it speaks.
MAX_FIRST_FRAME_BYTES = 64 * 1024
# Key, version and correlation id.
_LEAST_HEADER = 8

_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
_ANSWER = struct.Struct(">ii")
_FLEXIBLE_ANSWER = struct.Struct(">iix")
_REQUEST = struct.Struct(">ihhih")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    # Where the message begins in the frame.
    position: int

    @property
    def api(self) -> Api:
        """The API asked for; raises `ProtocolError` if it or the version is not known."""
        api = APIS.get(self.api_key)
        if api is None:
            raise ProtocolError(f"no API has the key {self.api_key}")
        if self.api_version not in api.versions:
            raise ProtocolError(f"{api.name} has the versions {api.versions}, not {self.api_version}")
        return api


def frame_length(buffer: Buffer, limit: int = MAX_FRAME_BYTES) -> int:
    """The length that the first four bytes announce; raises `ProtocolError` if no request can have it."""
    (length,) = _LENGTH.unpack_from(buffer)
    if not _LEAST_HEADER <= length <= limit:
        raise ProtocolError(f"a frame of {length} bytes; a request has {_LEAST_HEADER} to {limit}")
    return int(length)


def read_request_header(frame: Buffer) -> RequestHeader:
    """Reads the header of a frame without its length. The API need not be known: see `RequestHeader.api`."""
    try:
        api_key, api_version, correlation_id, length = _HEADER.unpack_from(frame)
    except struct.error:
        raise ProtocolError(f"a frame of {len(frame)} bytes ends in its header") from None
    view = memoryview(frame)
    position = _HEADER.size
    client_id = None
    if length != -1:
        if not 0 <= length <= len(view) - position:
            raise ProtocolError(f"client_id: length {length} with {len(view) - position} bytes left")
        try:
            client_id = str(view[position : position + length], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"client_id: {error}") from None
        position += length
    api = APIS.get(api_key)
    if api is not None and api.flexible is not None and api_version >= api.flexible:
        try:
            position = _skip_tags(view, position, len(view))
        except IndexError:
            raise ProtocolError("a frame ends in its header's tagged fields") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def read_request(frame: Buffer) -> tuple[RequestHeader, Any]:
    """Header and message of a frame without its length."""
    header = read_request_header(frame)
    return header, header.api.request.decoder(header.api_version)(memoryview(frame), header.position)


def response_pieces(api: Api, version: int, correlation_id: int, response: object) -> list[bytes | memoryview]:
    """The whole frame, length included, as pieces to join or to write one after the other."""
    pieces: list[bytes | memoryview] = [b""]
    api.response.encoder(version)(response, pieces.append)
    size = sum(map(len, pieces))
    if api.response.is_flexible(version) and api is not API_VERSIONS:
        pieces[0] = _FLEXIBLE_ANSWER.pack(size + 5, correlation_id)
    else:
        pieces[0] = _ANSWER.pack(size + 4, correlation_id)
    return pieces


def response_frame(api: Api, version: int, correlation_id: int, response: object) -> bytes:
    """The whole frame, length included."""
    return b"".join(response_pieces(api, version, correlation_id, response))


def request_frame(api: Api, version: int, correlation_id: int, client_id: str | None, request: object) -> bytes:
    """A request's whole frame, length included: what a client sends."""
    name = b"" if client_id is None else client_id.encode()
    header = name + (b"\0" if api.request.is_flexible(version) else b"")
    body = api.request.encode(version, request)
    length = -1 if client_id is None else len(name)
    return _REQUEST.pack(10 + len(header) + len(body), api.key, version, correlation_id, length) + header + body


def read_response(api: Api, version: int, frame: Buffer) -> tuple[int, Any]:
    """Correlation id and message of a response frame without its length: what a client reads."""
    view = memoryview(frame)
    if len(view) < 4:
        raise ProtocolError(f"a frame of {len(view)} bytes ends in its header")
    (correlation_id,) = _LENGTH.unpack_from(view)
    position = 4
    if api.response.is_flexible(version) and api is not API_VERSIONS:
        try:
            position = _skip_tags(view, position, len(view))
        except IndexError:
            raise ProtocolError("a frame ends in its header's tagged fields") from None
    return int(correlation_id), api.response.decoder(version)(view, position)
