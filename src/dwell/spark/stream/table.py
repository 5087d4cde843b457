"""The tables that travel between the stages and that shards keep, as Arrow batches.

Times are milliseconds since 1970. An operation is known by two 64-bit hashes: `hash` of its op_id, `tag` of its
content; one of its needs by its place `no` among the operation's needs, sorted by key.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dwell.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# A row about a key has, as `cell`, the part of the key's hash that the choice of the shard left over.
EVENT = pa.schema([("key", pa.string()), ("cell", pa.int32()), ("at", pa.int64()), ("level", pa.int64())])

NEED = pa.schema(
    [
        ("key", pa.string()),
        ("cell", pa.int32()),
        ("level", pa.int64()),
        ("submitted", pa.int64()),
        ("deadline", pa.int64()),
        ("hash", pa.int64()),
        ("tag", pa.int64()),
        ("no", pa.int32()),
        ("volume", pa.bool_()),
        # When it was met, where needs are kept beyond that.
        ("met", pa.int64()),
    ]
)

# A key's level, when it last rose, and when the key was last heard of.
KEY = pa.schema(
    [
        ("key", pa.string()),
        ("cell", pa.int32()),
        ("level", pa.int64()),
        ("rose", pa.int64()),
        ("seen", pa.int64()),
    ]
)

# A need is met at `at`. For an operation with a volume, instead: its key rose to `level` at `rose`, which may be before
# the submission; `at` never is.
MET = pa.schema(
    [
        ("hash", pa.int64()),
        ("tag", pa.int64()),
        ("no", pa.int32()),
        ("at", pa.int64()),
        ("level", pa.int64()),
        ("rose", pa.int64()),
    ]
)

# An operation that had its outcome, remembered up to a time; `owner` if its op_id is its own.
KNOWN = pa.schema([("hash", pa.int64()), ("tag", pa.int64()), ("until", pa.int64()), ("owner", pa.bool_())])

# How to compress what stays for long, and what is soon read again.
LASTING, PASSING = "zstd", "lz4"

# A thread for each column takes longer to start than it has work.
_AT_ONCE = pa.ipc.IpcReadOptions(use_threads=False)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    parts = [batch for batch in batches if batch.num_rows]
    if len(parts) < 2:
        return parts[0] if parts else empty(schema)
    return pa.concat_batches(parts)


def ints(batch: pa.RecordBatch, name: str, null: int = 0) -> Ints:
    column = batch.column(name)
    if column.null_count:
        column = pc.fill_null(column, null)
    return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)  # type: ignore[no-any-return]


def present(batch: pa.RecordBatch, name: str) -> Mask:
    return batch.column(name).is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def flags(batch: pa.RecordBatch, name: str) -> Mask:
    return batch.column(name).to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)  # type: ignore[no-any-return]


def where(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    if mask.all():
        return batch
    return batch.filter(pa.array(mask))


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in this schema: with null in new fields of `extra`, and in the types of this session's settings."""
    if batch.schema.equals(schema):
        return batch
    if "extra" in batch.schema.names and "extra" not in schema.names:
        batch = batch.drop_columns(["extra"])
    elif "extra" in schema.names and "extra" not in batch.schema.names:
        extra = schema.field("extra")
        batch = batch.append_column(extra, pa.nulls(batch.num_rows, extra.type))
    try:
        return batch.cast(schema)
    except (pa.ArrowInvalid, ValueError) as error:
        raise InvalidArgument(f"operations has other columns than the checkpoint was started with: {error}") from error


def cells(hashes: Ints, shards: int) -> Ints:
    """What the choice of one of these many shards leaves of a hash."""
    return (hashes // shards) & 0x7FFFFFFF


def among(column: pa.Array, values: pa.Array) -> Mask:
    """Which entries of the column are among the values."""
    return pc.is_in(column, value_set=values).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def shares(batch: pa.RecordBatch, shard: Ints, shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batch cut by shard; shards without rows are left out."""
    order = np.argsort(shard, kind="stable")
    ordered = batch.take(pa.array(order))
    bounds = np.searchsorted(shard[order], np.arange(shards + 1))
    for number in range(shards):
        start, end = int(bounds[number]), int(bounds[number + 1])
        if end > start:
            yield number, ordered.slice(start, end - start)


def dump(batch: pa.RecordBatch, codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def load(data: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(data, options=_AT_ONCE).read_next_batch()


def to_text(batch: pa.RecordBatch, codec: str) -> str:
    """For a state store's string column.

    Spark hands a binary value to Python some fifteen times slower than a string of its length.
    """
    return b64encode(dump(batch, codec)).decode("ascii")


def from_text(text: str) -> pa.RecordBatch:
    return load(b64decode(text))
