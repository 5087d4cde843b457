"""The records in a batch, one by one.

  varint   length of the record, without this field
  int8     attributes, unused
  varlong  timestamp delta, from the batch's base timestamp
  varint   offset delta, from the batch's base offset
  varint   length of the key, -1 for null; the key
  varint   length of the value, -1 for null; the value
  varint   number of headers; per header: length of its name, its name, length of its value, -1 for null, its value

Varints are zigzag coded: 0, -1, 1, -2 are 0, 1, 2, 3. The record of a control batch has a key of two int16, a version
and a type (0 abort, 1 commit); the value has a version and the epoch of the transaction coordinator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dwell.broker.record import batch as batches
from dwell.broker.record.batch import Batch, RecordError, make_batch
from dwell.broker.record.compression import compress, decompress
from dwell.broker.wire.error import Error

ABORT, COMMIT = 0, 1
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VALUE = struct.Struct(">hi")
# A record of one byte each: length, attributes, two deltas, two nulls, no headers.
_LEAST_RECORD_BYTES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as a consumer sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def write_varint(out: bytearray, value: int) -> None:
    """Appends a signed number of at most 64 bits."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A signed number and the position after it. Raises `RecordError` if it ends late or beyond the data."""
    value = shift = 0
    while True:
        if position >= len(data):
            raise RecordError(Error.INVALID_RECORD, "a record ends in a number")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value >> 1 if not value & 1 else -((value + 1) >> 1), position
        shift += 7
        if shift > 63:
            raise RecordError(Error.INVALID_RECORD, "a number in a record is longer than 64 bits")


def write_batch(
    records: Iterable[Record],
    *,
    compression: int = 0,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> Batch:
    """A batch of records. They take the offsets from `base_offset` on, whatever offsets they had."""
    body = bytearray()
    base_timestamp = max_timestamp = -1
    count = 0
    for record in records:
        if count == 0:
            base_timestamp = max_timestamp = record.timestamp_ms
        max_timestamp = max(max_timestamp, record.timestamp_ms)
        _write_record(body, record, record.timestamp_ms - base_timestamp, count)
        count += 1
    if count == 0:
        raise ValueError("a batch needs at least one record")
    return make_batch(
        compress(compression, bytes(body)),
        count=count,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        attributes=attributes | compression,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def _write_record(body: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    out = bytearray(1)
    write_varint(out, timestamp_delta)
    write_varint(out, offset_delta)
    _write_bytes(out, record.key)
    _write_bytes(out, record.value)
    write_varint(out, len(record.headers))
    for name, value in record.headers:
        _write_bytes(out, name.encode())
        _write_bytes(out, value)
    write_varint(body, len(out))
    body += out


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # -1
    else:
        write_varint(out, len(value))
        out += value


def read_records(batch: Batch) -> Iterator[Record]:
    """The records of a batch. Raises `RecordError` where the bytes are no records."""
    data = decompress(batch.compression, batch.tail[batches.TAIL_HEADER_BYTES :])
    if batch.records_count * _LEAST_RECORD_BYTES > len(data):
        raise RecordError(Error.INVALID_RECORD, f"{batch.records_count} records in {len(data)} bytes")
    position = 0
    for _ in range(batch.records_count):
        length, position = read_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise RecordError(Error.INVALID_RECORD, f"a record of {length} bytes with {len(data) - position} left")
        yield _read_record(batch, data, position, end)
        position = end
    if position != len(data):
        raise RecordError(Error.INVALID_RECORD, f"{len(data) - position} bytes after the last record")


def _read_record(batch: Batch, data: bytes, position: int, end: int) -> Record:
    timestamp_delta, position = read_varint(data, position + 1)
    offset_delta, position = read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    count, position = read_varint(data, position)
    # A header has at least the lengths of its name and its value.
    if not 0 <= count <= (end - position) // 2:
        raise RecordError(Error.INVALID_RECORD, f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        content, position = _read_bytes(data, position, end)
        if name is None:
            raise RecordError(Error.INVALID_RECORD, "a header without a name")
        try:
            headers.append((name.decode(), content))
        except UnicodeDecodeError as error:
            raise RecordError(Error.INVALID_RECORD, f"the name of a header: {error}") from None
    if position != end:
        raise RecordError(Error.INVALID_RECORD, f"a record's fields end {end - position} bytes before the record")
    timestamp = batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp + timestamp_delta
    offset = batch.base_offset + offset_delta
    return Record(offset=offset, timestamp_ms=timestamp, key=key, value=value, headers=tuple(headers))


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise RecordError(Error.INVALID_RECORD, f"a field of {length} bytes with {end - position} left")
    return data[position : position + length], position + length


def control_batch(
    kind: int, *, timestamp_ms: int, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
) -> Batch:
    """The marker that ends a transaction in a partition: `COMMIT` or `ABORT`."""
    record = Record(
        offset=0,
        timestamp_ms=timestamp_ms,
        key=_CONTROL_KEY.pack(0, kind),
        value=_CONTROL_VALUE.pack(0, coordinator_epoch),
    )
    attributes = batches.CONTROL | batches.TRANSACTIONAL
    return write_batch([record], attributes=attributes, producer_id=producer_id, producer_epoch=producer_epoch)


def control_kind(record: Record) -> int:
    """`COMMIT`, `ABORT` or another number, of a record in a control batch."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise RecordError(Error.INVALID_RECORD, "a control record without its type")
    return int(_CONTROL_KEY.unpack_from(record.key)[1])
