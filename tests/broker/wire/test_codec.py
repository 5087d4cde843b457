"""Malformed bytes: one kind of exception, and no memory by a length that only promises."""

from __future__ import annotations

import contextlib
import random
import resource
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dwell.broker.wire import APIS, Api, ProtocolError, Schema
from dwell.broker.wire.codec import Message, write_uvarint
from dwell.broker.wire.message.fetch import FETCH, LIST_OFFSETS
from dwell.broker.wire.message.produce import PRODUCE
from dwell.broker.wire.notation import parse
from tests.broker.wire.sample import sample

# Far above what any sample needs, far below what a length of 2**31 - 1 promises.
MEMORY = 8 * 1024 * 1024


def _message() -> Message:
    partition = PRODUCE.Request.PartitionProduceData(index=0, records=b"records")
    topic = PRODUCE.Request.TopicProduceData(name="orders", partition_data=[partition])
    request: Message = PRODUCE.Request(acks=-1, timeout_ms=1000, topic_data=[topic])
    return request


def test_records_are_a_view_into_the_frame() -> None:
    frame = bytearray(PRODUCE.encode_request(9, _message()))
    records = PRODUCE.decode_request(9, frame).topic_data[0].partition_data[0].records
    frame[frame.index(b"records")] = ord("R")
    assert records == b"Records"


def test_records_may_be_written_in_pieces() -> None:
    pieces = FETCH.Response.PartitionData(records=[b"a", memoryview(b"bc"), bytearray(b"d")])
    whole = FETCH.Response.PartitionData(records=b"abcd")
    for version in (4, 12):
        encoded = [
            FETCH.encode_response(
                version, FETCH.Response(responses=[FETCH.Response.FetchableTopicResponse(partitions=[p])])
            )
            for p in (pieces, whole)
        ]
        assert encoded[0] == encoded[1]


def test_a_field_the_version_lacks_holds_its_default() -> None:
    request = LIST_OFFSETS.decode_request(1, LIST_OFFSETS.encode_request(1, LIST_OFFSETS.Request(isolation_level=1)))
    assert request.isolation_level == 0
    assert FETCH.decode_request(4, FETCH.encode_request(4, FETCH.Request())).session_epoch == -1


def test_two_messages_do_not_share_an_array() -> None:
    one, other = PRODUCE.Request(), PRODUCE.Request()
    one.topic_data.append("x")
    assert other.topic_data == []


def test_an_unknown_version_is_a_protocol_error() -> None:
    for version in (2, 14):
        with pytest.raises(ProtocolError, match="versions 3-13"):
            PRODUCE.decode_request(version, b"")


def test_unknown_tagged_fields_are_skipped() -> None:
    schema = Schema("Cup", "0", 0, "0+ size int8\n0+ sugar int32 = 2 tag 3")
    encoded = b"\x07" + b"\x03" + b"\x00\x02ab" + b"\x03\x04\x00\x00\x00\x05" + write_uvarint(300) + b"\x00"
    cup = schema.decode(0, encoded)
    assert (cup.size, cup.sugar) == (7, 5)


def test_a_tagged_field_must_be_as_long_as_it_says() -> None:
    schema = Schema("Cup", "0", 0, "0+ sugar int32 = 2 tag 3")
    with pytest.raises(ProtocolError, match="sugar"):
        schema.decode(0, b"\x01\x03\x05\x00\x00\x00\x05\x00")


def test_tagged_fields_are_counted_against_the_bytes_left() -> None:
    schema = Schema("Cup", "0", 0, "0+ size int8")
    with pytest.raises(ProtocolError, match="tagged fields"):
        schema.decode(0, b"\x07" + write_uvarint(2**31 - 1) + b"\x00\x00")


def test_a_varint_beyond_32_bits_is_refused() -> None:
    schema = Schema("Cup", "0", 0, "0+ name string")
    for encoded in (b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(ProtocolError, match="32 bits"):
            schema.decode(0, encoded + bytes(20))


KINDS = ["string", "bytes", "records", "[int8]", "[int64]", "[string]", "[uuid]", "[Cup]"]
LENGTHS = [-2, -1, 1, 2**15 - 1, 2**31 - 1]


@pytest.mark.parametrize(
    ("kind", "flexible", "length"),
    [
        (kind, flexible, length)
        for kind in KINDS
        for flexible in (True, False)
        for length in LENGTHS
        # The length of a string has two bytes, a compact length is never below -1.
        if not (flexible and length < -1) and not (kind == "string" and not flexible and length > 2**15 - 1)
    ],
)
def test_a_length_is_compared_with_the_bytes_left(kind: str, flexible: bool, length: int) -> None:
    text = f"0+ value {kind}" + ("\n0+   size int8" if kind == "[Cup]" else "")
    schema = Schema("Message", "0", 0 if flexible else None, text)
    short = kind == "string" and not flexible
    encoded = write_uvarint(length + 1) if flexible else struct.pack(">h" if short else ">i", length)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            schema.decode(0, encoded)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def test_a_length_of_zero_is_empty_and_null_is_null() -> None:
    for flexible, empty, null in ((None, b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"), (0, b"\x01\x00", b"\x00\x00")):
        schema = Schema("Message", "0", flexible, "0+ value [int8]?")
        assert schema.decode(0, empty).value == []
        assert schema.decode(0, null).value is None
    # Kafka reads any negative length as null.
    assert Schema("Message", "0", None, "0+ value string?").decode(0, b"\x80\x00").value is None


def test_bytes_after_the_message_are_ignored() -> None:
    encoded = PRODUCE.encode_request(9, _message())
    assert PRODUCE.decode_request(9, encoded + b"more") == PRODUCE.decode_request(9, encoded)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_cut_message_is_a_protocol_error_or_ends_at_a_field(api: Api) -> None:
    random.seed(api.key)
    for version in api.versions:
        for schema in (api.request, api.response):
            encoded = schema.encode(version, sample(schema, version))
            for end in range(len(encoded)):
                with pytest.raises(ProtocolError):
                    schema.decode(version, encoded[:end])


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_mutated_messages_raise_nothing_but_protocol_errors(api: Api) -> None:
    source = random.Random(api.key)
    tracemalloc.start()
    try:
        for version in api.versions:
            for schema in (api.request, api.response):
                encoded = schema.encode(version, sample(schema, version))
                for _ in range(30):
                    _decode(schema, version, mutated(encoded, source))
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def mutated(encoded: bytes, source: random.Random) -> bytes:
    """A copy with a few flipped bits, a length of another size, a cut or an insertion."""
    data = bytearray(encoded)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(data) + 1)
        match source.randrange(4):
            case 0 if at < len(data):
                data[at] ^= 1 << source.randrange(8)
            case 1:
                data[at : at + 4] = struct.pack(">i", source.choice([-1, 0, 1, 2**31 - 1, -(2**31), 2**16]))
            case 2:
                data[at : at + source.randrange(8)] = b""
            case _:
                data[at:at] = source.randbytes(source.randrange(8))
    return bytes(data)


def _decode(schema: Schema, version: int, data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        schema.decode(version, data)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(APIS)), st.data(), st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_protocol_errors(key: int, data: st.DataObject, encoded: bytes) -> None:
    api = APIS[key]
    version = data.draw(st.sampled_from(list(api.versions)))
    _decode(api.request, version, encoded)
    _decode(api.response, version, encoded)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_mutated_frames() -> None:
    source = random.Random(1)
    encoded = [
        (schema, version, schema.encode(version, sample(schema, version)))
        for api in APIS.values()
        for version in api.versions
        for schema in (api.request, api.response)
    ]
    for schema, version, _ in encoded:
        schema.decoder(version)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1_000_000):
        schema, version, data = source.choice(encoded)
        _decode(schema, version, mutated(data, source))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0+ Size int8", "cannot read the line"),
        ("0+ size", "cannot read the line"),
        ("0+ cups [Cup]\n0+   size int8\n0+ more [Cup]\n0+   size int8", "indented like no line"),
    ],
)
def test_a_line_that_is_no_field_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse("Message", text)


def test_a_group_named_again_is_the_same_group() -> None:
    message = parse("Message", "0+ first {Cup}\n0+   size int8\n0+ second [Cup]\n0+ name string")
    assert message.fields[0].group is message.fields[1].group
    assert [item.name for item in message.fields] == ["first", "second", "name"]
