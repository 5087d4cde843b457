"""Kafka's wire protocol: messages as data, codecs made from them, frames, error codes.

A handler needs ten lines (`frame` is a request without its four bytes of length):

    from dwell.broker.wire import Error, read_request, response_frame
    from dwell.broker.wire.message.produce import PRODUCE

    header, request = read_request(frame)                 # ProtocolError: close the connection
    assert header.api is PRODUCE
    partition = PRODUCE.Response.PartitionProduceResponse(index=0, error_code=Error.NONE, base_offset=41)
    topic = PRODUCE.Response.TopicProduceResponse(name=request.topic_data[0].name, partition_responses=[partition])
    response = PRODUCE.Response(responses=[topic])
    answer = response_frame(header.api, header.api_version, header.correlation_id, response)

- Fields and groups have the names of `wire/message/*.py`, which are Kafka's in snake_case. One class serves all
  versions: fields that a version lacks hold their default when read and are left out when written.
- Records are memoryviews into the frame when read, and a buffer or a *list* of buffers when written. A uuid is 16
  bytes. Arrays are lists. A tagged group (`replica_state`, `current_leader`, `diverging_epoch`) is None when absent.
- `read_request_header(frame)` reads the header alone and `header.api` raises `ProtocolError` for an API or version we
  do not know, so that ApiVersions with an unknown version can be answered in version 0.
- `response_pieces` is `response_frame` without the last copy. `request_frame` and `read_response` are a client's side.
- `Schema` serves messages that are no API, such as the records of internal topics: `.type`, `.encode`, `.decode`.
"""

from __future__ import annotations

from dwell.broker.wire.api import Api
from dwell.broker.wire.codec import Schema
from dwell.broker.wire.error import Error, ProtocolError
from dwell.broker.wire.frame import (
    MAX_FIRST_FRAME_BYTES,
    MAX_FRAME_BYTES,
    RequestHeader,
    frame_length,
    read_request,
    read_request_header,
    read_response,
    request_frame,
    response_frame,
    response_pieces,
)
from dwell.broker.wire.message import APIS

__all__ = [
    "APIS",
    "MAX_FIRST_FRAME_BYTES",
    "MAX_FRAME_BYTES",
    "Api",
    "Error",
    "ProtocolError",
    "RequestHeader",
    "Schema",
    "frame_length",
    "read_request",
    "read_request_header",
    "read_response",
    "request_frame",
    "response_frame",
    "response_pieces",
]
