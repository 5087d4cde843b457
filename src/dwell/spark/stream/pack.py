"""Rows to shards before a shuffle: all rows for one shard become one row with Arrow batches in it.

Spark hands rows to a stateful Python operator one at a time; packed, it hands over a few large ones. Every task sends a
row to every shard, so that each shard learns how far the task has seen time advance.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.spark.stream.spread import shard_names
from dwell.spark.stream.table import EVENT, NEED, cells, dump, empty, ints, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dwell.spark.stream.table import Ints

    Rows = Iterable[pa.RecordBatch]

PACKED = (
    "shard int, now bigint, op_rows bigint, op_latest bigint, event_rows bigint, event_latest bigint, aside bigint, "
    "ops binary, needs binary, events binary"
)
_PACKED = pa.schema(
    [
        ("shard", pa.int32()),
        *((name, pa.int64()) for name in ("now", "op_rows", "op_latest", "event_rows", "event_latest", "aside")),
        *((name, pa.binary()) for name in ("ops", "needs", "events")),
    ]
)

# Rows taken together: fewer make more and smaller packs, more take more memory.
PACK_ROWS = 200_000

# What an operation is to its shard; `extra` may follow.
OP_COLUMNS = ("op_id", "hash", "tag", "submitted", "delay", "needs", "quorum", "volume", "fault")


def pack_operations(shards: int) -> Callable[[Rows], Iterator[pa.RecordBatch]]:
    """For OP_COLUMNS, `extra` if any, and `key_hashes`, the hash of each need's key (null if there is a fault)."""
    return partial(_packs, shards=shards, pack=_operations)


def pack_events(shards: int) -> Callable[[Rows], Iterator[pa.RecordBatch]]:
    """For `key, at, level, hash`; hash is null if the event is to be set aside."""
    return partial(_packs, shards=shards, pack=_events)


def pack_beats(shards: int) -> Callable[[Rows], Iterator[pa.RecordBatch]]:
    """For `now`."""
    return partial(_packs, shards=shards, pack=_beats)


def _packs(
    batches: Rows, shards: int, pack: Callable[[pa.RecordBatch, int], dict[str, Any]]
) -> Iterator[pa.RecordBatch]:
    for rows in _gathered(batches):
        columns = {
            name: [value] * shards if not isinstance(value, list) else value
            for name, value in pack(rows, shards).items()
        }
        nothing = [None] * shards
        columns["shard"] = list(shard_names(shards))
        yield pa.RecordBatch.from_pydict({name: columns.get(name, nothing) for name in _PACKED.names}, schema=_PACKED)


def _gathered(batches: Rows) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
        if rows >= PACK_ROWS:
            yield pa.concat_batches(held)
            held, rows = [], 0
    if held:
        yield pa.concat_batches(held)


def _operations(rows: pa.RecordBatch, shards: int) -> dict[str, Any]:
    sound = rows.filter(rows.column("fault").is_null())
    names = [name for name in rows.schema.names if name != "key_hashes"]
    key_hashes = _flat(sound, "key_hashes")
    return {
        "op_rows": sound.num_rows,
        "op_latest": pc.max(sound.column("submitted")).as_py(),
        "ops": _shares(rows.select(names), ints(rows, "hash"), shards),
        "needs": _shares(_needs(sound, cells(key_hashes, shards)), key_hashes, shards),
    }


def _needs(ops: pa.RecordBatch, cell: Ints) -> pa.RecordBatch:
    """One row for each need."""
    if not ops.num_rows:
        return empty(NEED)
    lists = ops.column("needs")
    parent = pc.list_parent_indices(lists)
    need = pc.list_flatten(lists)
    per_op = ops.select(["submitted", "hash", "tag"]).take(parent)
    counts = pc.list_value_length(lists).to_numpy().astype(np.int64)
    no = np.arange(len(need)) - np.repeat(np.cumsum(counts) - counts, counts)
    deadline = pc.add(ops.column("submitted"), ops.column("delay")).take(parent)
    return pa.RecordBatch.from_arrays(
        [
            need.field("key"),
            pa.array(cell, pa.int32()),
            need.field("level"),
            per_op.column("submitted"),
            deadline,
            per_op.column("hash"),
            per_op.column("tag"),
            pa.array(no.astype(np.int32)),
            ops.column("volume").is_valid().take(parent),
            pa.nulls(len(need), pa.int64()),
        ],
        schema=NEED,
    )


def _flat(rows: pa.RecordBatch, name: str) -> Ints:
    return pc.list_flatten(rows.column(name)).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _events(rows: pa.RecordBatch, shards: int) -> dict[str, Any]:
    usable = rows.filter(rows.column("hash").is_valid())
    hashes = ints(usable, "hash")
    cell = pa.array(cells(hashes, shards), pa.int32())
    heard = pa.RecordBatch.from_arrays(
        [usable.column("key"), cell, usable.column("at"), usable.column("level")], schema=EVENT
    )
    return {
        "event_rows": usable.num_rows,
        "event_latest": pc.max(usable.column("at")).as_py(),
        "aside": [rows.num_rows - usable.num_rows] + [0] * (shards - 1),
        "events": _shares(heard, hashes, shards),
    }


def _beats(rows: pa.RecordBatch, _shards: int) -> dict[str, Any]:
    return {"now": pc.max(rows.column("now")).as_py()}


def _shares(rows: pa.RecordBatch, hashes: Ints, shards: int) -> list[bytes | None]:
    cut: list[bytes | None] = [None] * shards
    for shard, share in shares(rows, hashes % shards, shards):
        cut[shard] = dump(share)
    return cut
