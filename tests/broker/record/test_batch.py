"""The batch's header: placing it, and what a broker refuses with which error."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from dwell.broker.record.batch import (
    Batch,
    RecordError,
    check_produced,
    next_sequence,
    read_batch,
    read_batches,
    read_produced,
)
from dwell.broker.record.checksum import crc32c
from dwell.broker.record.compression import NAMES
from dwell.broker.record.record import Record, read_records, write_batch
from dwell.broker.wire import Error

MAX = 1_048_588


def _batch(count: int = 3, **options: int) -> Batch:
    return write_batch([Record(offset=0, timestamp_ms=9, key=None, value=b"v") for _ in range(count)], **options)


def _patched(batch: Batch, at: int, data: bytes) -> bytes:
    """The batch with other bytes at a place and a checksum that fits."""
    raw = bytearray(batch.data)
    raw[at : at + len(data)] = data
    raw[17:21] = struct.pack(">I", crc32c(bytes(raw[21:])))
    return bytes(raw)


@pytest.mark.parametrize("compression", range(5), ids=NAMES)
def test_placing_a_batch_changes_its_first_bytes_only(compression: int) -> None:
    sent = _batch(compression=compression)
    batch = read_produced(memoryview(sent.data))
    check_produced(batch, max_bytes=MAX)
    batch.place(41, 7)
    assert (batch.base_offset, batch.leader_epoch, batch.last_offset, batch.next_offset) == (41, 7, 43, 44)
    assert batch.data[16:] == sent.data[16:]
    assert batch.is_valid
    assert [record.offset for record in read_records(batch)] == [41, 42, 43]


def test_a_batch_does_not_keep_the_frame_it_came_in() -> None:
    frame = bytearray(_batch().data)
    batch = read_produced(frame)
    frame[70] ^= 1
    assert batch.is_valid


def test_offsets_advance_by_the_last_offset_delta() -> None:
    thinned = read_batch(_patched(_batch(3), 57, struct.pack(">i", 1)))
    thinned.place(10, 0)
    assert thinned.next_offset == 13


REFUSED: list[tuple[str, Callable[[], bytes], Error]] = [
    ("null", lambda: b"", Error.INVALID_RECORD),
    ("cut", lambda: _batch().data[:-1], Error.INVALID_RECORD),
    ("two batches", lambda: _batch().data * 2, Error.INVALID_RECORD),
    ("format 1", lambda: _patched(_batch(), 16, b"\x01"), Error.INVALID_RECORD),
    ("format 3", lambda: _patched(_batch(), 16, b"\x03"), Error.CORRUPT_MESSAGE),
    ("length too small", lambda: _patched(_batch(), 8, struct.pack(">i", 13)), Error.CORRUPT_MESSAGE),
    ("length negative", lambda: _patched(_batch(), 8, struct.pack(">i", -1)), Error.CORRUPT_MESSAGE),
    ("shorter than its header", lambda: _patched(_batch(), 8, struct.pack(">i", 40)), Error.CORRUPT_MESSAGE),
    ("base offset", lambda: _batch(base_offset=5).data, Error.INVALID_RECORD),
    ("checksum", lambda: _batch().data[:-1] + b"!", Error.CORRUPT_MESSAGE),
    ("too large", lambda: _batch(60_000).data * 1, Error.MESSAGE_TOO_LARGE),
    ("no records", lambda: _patched(_batch(), 57, struct.pack(">i", 0)), Error.INVALID_RECORD),
    ("count and offsets", lambda: _patched(_batch(), 57, struct.pack(">i", 2)), Error.INVALID_RECORD),
    ("offsets backwards", lambda: _patched(_batch(), 23, struct.pack(">i", -1)), Error.INVALID_RECORD),
    ("control", lambda: _batch(attributes=1 << 5).data, Error.INVALID_RECORD),
    ("compression 5", lambda: _patched(_batch(), 21, b"\x00\x05"), Error.CORRUPT_MESSAGE),
    ("no sequence", lambda: _batch(producer_id=1, producer_epoch=0).data, Error.INVALID_RECORD),
]


@pytest.mark.parametrize(("make", "error"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_bad_batch_is_refused_with_kafkas_error(make: Callable[[], bytes], error: Error) -> None:
    with pytest.raises(RecordError) as refused:
        check_produced(read_produced(make()), max_bytes=200_000)
    assert refused.value.error is error


def test_no_records_at_all_are_refused() -> None:
    with pytest.raises(RecordError) as refused:
        read_produced(None)
    assert refused.value.error is Error.INVALID_RECORD


def test_zstd_needs_a_newer_request() -> None:
    batch = _batch(compression=4)
    with pytest.raises(RecordError) as refused:
        read_produced(batch.data, version=6)
    assert refused.value.error is Error.UNSUPPORTED_COMPRESSION_TYPE
    read_produced(batch.data, version=7)


def test_batches_in_a_row_are_read_and_a_cut_one_is_left_out() -> None:
    row = _batch(2, base_offset=0).data + _batch(3, base_offset=2).data
    assert [batch.base_offset for batch in read_batches(row)] == [0, 2]
    assert [batch.base_offset for batch in read_batches(row[:-1])] == [0]
    assert list(read_batches(b"")) == []


def test_sequences_wrap_to_zero() -> None:
    assert next_sequence(2**31 - 1) == 0
    assert next_sequence(5) == 6
    assert _batch(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2).last_sequence == 0
    assert _batch().last_sequence == -1
