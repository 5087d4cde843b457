"""Frames: headers of every version, limits, and the rules of ApiVersions."""

from __future__ import annotations

import io
import struct

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer

from dwell.broker.wire import (
    MAX_FIRST_FRAME_BYTES,
    ProtocolError,
    frame_length,
    read_request,
    read_request_header,
    read_response,
    request_frame,
    response_frame,
)
from dwell.broker.wire.message.cluster import API_VERSIONS, METADATA
from dwell.broker.wire.message.fetch import FETCH


@pytest.mark.parametrize("client_id", ["rdkafka", "", None])
@pytest.mark.parametrize("version", [4, 12])
def test_a_request_frame_is_that_of_kio(version: int, client_id: str | None) -> None:
    frame = request_frame(FETCH, version, 7, client_id, FETCH.Request())
    kind = KioHeaderV2 if version == 12 else KioHeaderV1
    buffer = io.BytesIO()
    header = kind(request_api_key=1, request_api_version=version, correlation_id=7, client_id=client_id)  # type: ignore[arg-type]
    entity_writer(kind)(buffer, header)
    assert frame[4:].startswith(buffer.getvalue())
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    read, request = read_request(frame[4:])
    assert (read.api, read.api_version, read.correlation_id, read.client_id) == (FETCH, version, 7, client_id)
    assert request == FETCH.Request()


@pytest.mark.parametrize("version", [4, 12])
def test_a_response_frame_is_read_back(version: int) -> None:
    frame = response_frame(FETCH, version, 9, FETCH.Response(throttle_time_ms=3))
    assert frame_length(frame) == len(frame) - 4
    assert frame[4:8] == b"\0\0\0\x09"
    assert frame[8] == 0  # tagged fields of the header, or the first byte of the throttle time
    correlation_id, response = read_response(FETCH, version, frame[4:])
    assert (correlation_id, response.throttle_time_ms) == (9, 3)


def test_an_api_versions_response_has_the_oldest_header_always() -> None:
    response = API_VERSIONS.Response(error_code=35)
    for version in API_VERSIONS.versions:
        frame = response_frame(API_VERSIONS, version, 1, response)
        assert frame[4:10] == b"\0\0\0\x01\0\x23"
        assert read_response(API_VERSIONS, version, frame[4:])[1].error_code == 35


def test_a_request_of_an_unknown_api_or_version_can_still_be_named() -> None:
    frame = request_frame(API_VERSIONS, 4, 5, "client", API_VERSIONS.Request())[4:]
    unknown = struct.pack(">hh", 18, 99) + frame[4:]
    header = read_request_header(unknown)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 99, 5, "client")
    with pytest.raises(ProtocolError, match="api_versions has the versions 0-4, not 99"):
        _ = header.api
    with pytest.raises(ProtocolError, match="no API has the key 999"):
        _ = read_request_header(struct.pack(">hh", 999, 0) + frame[4:]).api


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 7, MAX_FIRST_FRAME_BYTES + 1, 2**31 - 1])
def test_a_length_no_request_has_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"a frame of {length} bytes"):
        frame_length(struct.pack(">i", length), MAX_FIRST_FRAME_BYTES)


def test_a_frame_that_ends_in_its_header_is_refused() -> None:
    frame = request_frame(METADATA, 12, 1, "client", METADATA.Request())[4:]
    for end in range(17):
        with pytest.raises(ProtocolError):
            read_request_header(frame[:end])
    assert read_request_header(frame[:17]).client_id == "client"


def test_a_client_id_that_is_no_text_is_refused() -> None:
    frame = bytearray(request_frame(METADATA, 12, 1, "client", METADATA.Request())[4:])
    frame[10] = 0xFF
    with pytest.raises(ProtocolError, match="client_id"):
        read_request_header(frame)
