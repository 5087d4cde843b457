"""Records in and out, beside the record code of aiokafka and kafka-python."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from dwell.broker.record.batch import CONTROL, TRANSACTIONAL, RecordError, make_batch, read_batch
from dwell.broker.record.compression import GZIP, NAMES, NONE, SNAPPY, ZSTD, compress, decompress
from dwell.broker.record.record import (
    ABORT,
    COMMIT,
    Record,
    control_batch,
    control_kind,
    read_records,
    read_varint,
    write_batch,
    write_varint,
)

PAYLOADS = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=70)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp_ms=st.integers(0, 2**45),
        key=PAYLOADS,
        value=PAYLOADS,
        headers=HEADERS,
    ),
    min_size=1,
    max_size=5,
)


def _fields(record: Any) -> tuple[Any, ...]:
    """Of any library's record: what a consumer sees."""
    timestamp = record.timestamp_ms if isinstance(record, Record) else record.timestamp
    return (record.offset, timestamp, record.key, record.value, tuple(tuple(header) for header in record.headers))


@pytest.mark.parametrize("compression", range(5), ids=NAMES)
def test_aiokafka_reads_what_we_write(compression: int) -> None:
    @settings(max_examples=30, deadline=None)
    @given(RECORDS, st.integers(0, 2**62))
    def check(records: list[Record], base_offset: int) -> None:
        batch = write_batch(records, compression=compression, base_offset=base_offset, producer_id=7, base_sequence=3)
        theirs = DefaultRecordBatch(batch.data)
        assert theirs.validate_crc()
        assert (theirs.producer_id, theirs.base_sequence, theirs.next_offset) == (7, 3, batch.next_offset)
        assert [_fields(record) for record in theirs] == [_fields(record) for record in read_records(batch)]
        assert [record.value for record in read_records(batch)] == [record.value for record in records]
        assert batch.max_timestamp == max(record.timestamp_ms for record in records)

    check()


@pytest.mark.parametrize("compression", range(5), ids=NAMES)
def test_we_read_what_aiokafka_writes(compression: int) -> None:
    @settings(max_examples=30, deadline=None)
    @given(RECORDS)
    def check(records: list[Record]) -> None:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=compression,
            is_transactional=1,
            producer_id=9,
            producer_epoch=2,
            base_sequence=5,
            batch_size=1_000_000,
        )
        for offset, record in enumerate(records):
            builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
        batch = read_batch(bytes(builder.build()))
        assert batch.is_valid
        assert batch.is_transactional
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, 5)
        expected = [_fields(record) for record in DefaultRecordBatch(batch.data)]
        assert [_fields(record) for record in read_records(batch)] == expected
        if compression == NONE:
            ours = write_batch(
                records, attributes=TRANSACTIONAL, producer_id=9, producer_epoch=2, base_sequence=5, leader_epoch=0
            )
            assert ours.data[16:] == batch.data[16:]

    check()


@pytest.mark.parametrize("compression", [NONE, GZIP])
def test_kafka_python_reads_what_we_write(compression: int) -> None:
    records = [
        Record(offset=0, timestamp_ms=1_000, key=b"k", value=b"v" * 300, headers=(("h", None), ("i", b"x"))),
        Record(offset=0, timestamp_ms=900, key=None, value=None),
    ]
    batch = write_batch(records, compression=compression, base_offset=41)
    theirs = KafkaPythonBatch(batch.data)
    assert theirs.validate_crc()
    assert [_fields(record) for record in theirs] == [_fields(record) for record in read_records(batch)]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_are_read_back(value: int) -> None:
    out = bytearray(b"x")
    write_varint(out, value)
    assert read_varint(bytes(out), 1) == (value, len(out))


def test_the_bytes_of_a_varint() -> None:
    for value, expected in ((0, b"\0"), (-1, b"\x01"), (1, b"\x02"), (-2, b"\x03"), (300, b"\xd8\x04")):
        out = bytearray()
        write_varint(out, value)
        assert out == expected


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 11])
def test_a_number_without_an_end_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        read_varint(data, 0)


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = write_batch([Record(offset=0, timestamp_ms=5, key=None, value=b"v")])
    batch.stamp(77)
    assert batch.is_valid
    assert [record.timestamp_ms for record in read_records(batch)] == [77]
    assert DefaultRecordBatch(batch.data).validate_crc()


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_ends_a_transaction(kind: int) -> None:
    batch = control_batch(kind, timestamp_ms=5, producer_id=7, producer_epoch=1, coordinator_epoch=3)
    assert batch.is_control
    assert batch.is_transactional
    assert batch.is_valid
    (record,) = read_records(batch)
    assert control_kind(record) == kind
    assert record.value == b"\0\0\0\0\0\x03"
    theirs = DefaultRecordBatch(batch.data)
    assert theirs.is_control_batch
    with pytest.raises(RecordError):
        control_kind(Record(offset=0, timestamp_ms=0, key=None, value=None))


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        write_batch([])


def test_mutated_records_raise_nothing_but_record_errors() -> None:
    source = random.Random(1)
    record = Record(offset=0, timestamp_ms=5, key=b"key", value=b"value", headers=(("name", b"content"),))
    for compression in range(5):
        body = write_batch([record] * 3, compression=compression).data[61:]
        for _ in range(500):
            data = bytearray(body)
            for _ in range(source.randint(1, 3)):
                data[source.randrange(len(data))] = source.randrange(256)
            damaged = make_batch(
                bytes(data[: source.randint(0, len(data))]),
                count=source.choice([1, 3, 2**31 - 1]),
                base_timestamp=0,
                max_timestamp=0,
                attributes=compression,
            )
            with contextlib.suppress(RecordError):
                list(read_records(damaged))


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_what_is_compressed_is_read_back(codec: int) -> None:
    for size in (0, 1, 40_000, 300_000):
        data = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
        assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", range(1, 5), ids=NAMES[1:])
def test_data_that_grows_beyond_the_limit_is_refused(codec: int) -> None:
    packed = compress(codec, bytes(10_000_000))
    with pytest.raises(RecordError, match="more than 1000000 bytes"):
        decompress(codec, packed, max_bytes=1_000_000)


def test_snappy_without_javas_framing_is_read_too() -> None:
    import cramjam

    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(b"tea" * 100))) == b"tea" * 100


def test_an_unknown_compression_is_refused() -> None:
    for function in (compress, decompress):
        with pytest.raises(RecordError, match="number 7"):
            function(ZSTD + 3, b"")


def test_flags_are_read_from_the_attributes() -> None:
    batch = make_batch(b"", count=1, base_timestamp=0, max_timestamp=0, attributes=CONTROL | ZSTD)
    assert batch.is_control
    assert not batch.is_transactional
    assert not batch.is_log_append_time
    assert batch.compression == ZSTD
