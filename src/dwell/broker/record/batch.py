"""The record batch: what a producer sends, a log keeps and a consumer gets, byte for byte.

  at  bytes
   0  8  base_offset             set by the leader when it appends
   8  4  batch_length            bytes after this field
  12  4  partition_leader_epoch  set by the leader when it appends
  16  1  magic                   2
  17  4  crc                     CRC-32C of everything from the attributes to the end
  21  2  attributes              bits 0-2 compression, 3 log append time, 4 transactional, 5 control, 6 delete horizon
  23  4  last_offset_delta       the batch takes last_offset_delta + 1 offsets, even if compaction removed records
  27  8  base_timestamp          what the timestamp deltas of the records count from
  35  8  max_timestamp
  43  8  producer_id             -1 if the producer is not idempotent
  51  2  producer_epoch
  53  4  base_sequence
  57  4  records_count
  61     the records, compressed as a whole

Only the first 16 bytes change when a leader appends a batch, and they lie outside the checksum: records are never
looked into. Log append time is the exception: attributes and max_timestamp change, and so does the checksum.

A batch is therefore kept in two pieces: the head of 21 bytes, which a leader replaces, and the tail, which the
checksum covers. The tail is copied once, out of the frame it came in; leader, followers and answers share it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dwell.broker.record.checksum import crc32c
from dwell.broker.wire.codec import Buffer
from dwell.broker.wire.error import Error
from dwell.errors import DwellError

_HEAD = struct.Struct(">qiibI")
_TAIL = struct.Struct(">hiqqqhii")
# Attributes to max_timestamp.
_TIMES = struct.Struct(">hiqq")
# Where the checksum begins to count.
_HEAD_BYTES = _HEAD.size
HEADER_BYTES = _HEAD_BYTES + _TAIL.size
# Where the records begin in the tail.
TAIL_HEADER_BYTES = _TAIL.size
# base_offset and batch_length, which batch_length does not count.
OVERHEAD_BYTES = 12
# Kafka reads a batch's magic first, then judges it: with fewer bytes there is no batch.
_MAGIC_BYTES = 17
# The smallest batch_length of any format; below it the bytes are no batch.
_LEAST_LENGTH = 14

COMPRESSION_MASK = 0b111
LOG_APPEND_TIME = 1 << 3
TRANSACTIONAL = 1 << 4
CONTROL = 1 << 5
ZSTD = 4

NO_PRODUCER = -1
# A sequence is followed by 0.
MAX_SEQUENCE = 2**31 - 1

_LENGTH = struct.Struct(">i")
assert HEADER_BYTES == 61


class RecordError(DwellError, ValueError):
    """A batch that a broker refuses, with the error code it answers."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error


class Batch:
    """A batch: the fields of its header, and its bytes as `head` and `tail`."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "head",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "records_count",
        "tail",
    )
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail
        self.base_offset, self.length, self.leader_epoch, self.magic, self.crc = _HEAD.unpack(head)
        (
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        ) = _TAIL.unpack_from(tail)

    def __repr__(self) -> str:
        return f"<batch of offsets {self.base_offset} to {self.last_offset}, {len(self)} bytes>"

    def __len__(self) -> int:
        return _HEAD_BYTES + len(self.tail)

    @property
    def data(self) -> bytes:
        """The whole batch. It is copied for this: an answer writes `head` and `tail` one after the other instead."""
        return self.head + self.tail

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; -1 if the batch has none."""
        if self.base_sequence < 0:
            return -1
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is right."""
        return crc32c(self.tail) == self.crc

    def place(self, base_offset: int, leader_epoch: int) -> None:
        """Sets the offset and the leader's epoch. Only the leader that appends the batch may call it, once."""
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.head = _HEAD.pack(base_offset, self.length, leader_epoch, self.magic, self.crc)

    def stamp(self, now_ms: int) -> None:
        """Sets log append time: all records count as written at `now_ms`. For the leader, before `place`."""
        self.attributes |= LOG_APPEND_TIME
        self.max_timestamp = now_ms
        times = _TIMES.pack(self.attributes, self.last_offset_delta, self.base_timestamp, now_ms)
        self.tail = times + self.tail[_TIMES.size :]
        self.crc = crc32c(self.tail)
        self.head = _HEAD.pack(self.base_offset, self.length, self.leader_epoch, self.magic, self.crc)


def next_sequence(sequence: int, by: int = 1) -> int:
    """The sequence `by` records later; after 2**31 - 1 comes 0."""
    return (sequence + by) & MAX_SEQUENCE


def read_batches(records: Buffer) -> Iterator[Batch]:
    """The batches that lie in `records` one after the other; an incomplete one at the end is left out.

    Raises `RecordError` where the bytes are no batch of format 2. Checksums are not looked at.
    """
    view = memoryview(records)
    position = 0
    while len(view) - position >= _MAGIC_BYTES:
        size = _size(view, position)
        if size > len(view) - position:
            return
        yield _read(view, position, size)
        position += size


def _size(view: memoryview, position: int) -> int:
    (length,) = _LENGTH.unpack_from(view, position + 8)
    if length < _LEAST_LENGTH:
        raise RecordError(Error.CORRUPT_MESSAGE, f"a batch length of {length}")
    magic = view[position + 16]
    if magic > 2:
        raise RecordError(Error.CORRUPT_MESSAGE, f"a batch of format {magic}")
    return int(length) + OVERHEAD_BYTES


def _read(view: memoryview, position: int, size: int) -> Batch:
    magic = view[position + 16]
    if magic < 2:
        raise RecordError(Error.INVALID_RECORD, f"a batch of format {magic}, which Kafka 4 no longer takes")
    if size < HEADER_BYTES:
        raise RecordError(Error.CORRUPT_MESSAGE, f"a batch of {size} bytes; its header alone has {HEADER_BYTES}")
    middle = position + _HEAD_BYTES
    return Batch(bytes(view[position:middle]), bytes(view[middle : position + size]))


def read_produced(records: Buffer | None, *, version: int = 13) -> Batch:
    """The one batch that a Produce request of `version` may hold per partition. Raises `RecordError`.

    This is what Kafka checks of a request before it looks for the partition; `check_produced` is the rest.
    """
    view = memoryview(b"" if records is None else records)
    if len(view) < _MAGIC_BYTES or (size := _size(view, 0)) > len(view):
        raise RecordError(Error.INVALID_RECORD, "a produce request needs a record batch for each partition")
    batch = _read(view, 0, size)
    if len(view) - size >= _MAGIC_BYTES and _size(view, size) <= len(view) - size:
        raise RecordError(Error.INVALID_RECORD, "a produce request may have one record batch for each partition")
    if batch.compression == ZSTD and version < 7:
        raise RecordError(Error.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of the produce request")
    return batch


def check_produced(batch: Batch, *, max_bytes: int) -> None:
    """Raises `RecordError` if a log whose max.message.bytes is `max_bytes` cannot take a client's batch.

    Left to the log: epochs, sequences, null keys in a compacted topic.
    """
    size = len(batch)
    if batch.base_offset != 0:
        raise RecordError(Error.INVALID_RECORD, f"base offset {batch.base_offset}; a client sends 0")
    if size > max_bytes:
        raise RecordError(Error.MESSAGE_TOO_LARGE, f"a batch of {size} bytes; the topic takes {max_bytes}")
    if not batch.is_valid:
        raise RecordError(Error.CORRUPT_MESSAGE, f"the checksum is not {batch.crc}")
    if batch.compression > ZSTD:
        raise RecordError(Error.CORRUPT_MESSAGE, f"no compression has the number {batch.compression}")
    if batch.last_offset_delta < 0:
        raise RecordError(Error.INVALID_RECORD, f"last offset delta {batch.last_offset_delta}")
    if batch.records_count <= 0:
        raise RecordError(Error.INVALID_RECORD, f"a count of {batch.records_count} records")
    if batch.records_count != batch.last_offset_delta + 1:
        raise RecordError(
            Error.INVALID_RECORD, f"{batch.records_count} records in {batch.last_offset_delta + 1} offsets"
        )
    if batch.is_control:
        raise RecordError(Error.INVALID_RECORD, "a client may not write control records")
    if batch.has_producer and batch.base_sequence < 0:
        raise RecordError(Error.INVALID_RECORD, f"base sequence {batch.base_sequence} of producer {batch.producer_id}")


def make_batch(
    records: bytes,
    *,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> Batch:
    """A batch around records that are encoded (and compressed) already; see `record.write_batch`."""
    fields = (count - 1, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count)
    tail = _TAIL.pack(attributes, *fields) + records
    length = _HEAD_BYTES - OVERHEAD_BYTES + len(tail)
    return Batch(_HEAD.pack(base_offset, length, leader_epoch, 2, crc32c(tail)), tail)


def read_batch(data: bytes) -> Batch:
    """A batch that is known to be whole, such as one of `Batch.data`."""
    return Batch(data[:_HEAD_BYTES], data[_HEAD_BYTES:])
