"""The load of `bench_stream`: Parquet files, one of each kind a micro-batch.

Operation i is submitted at i * STEP_MS. Most of its keys have their event half a second later, the rest never; a second
event on each key changes nothing. Pending operations wait on keys of their own, from the beginning to the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

START_MS = 1_700_000_000_000
STEP_MS = 1
DELAY_MS = 2_000
LONG_MS = 10**9
_NEEDS = pa.list_(pa.struct([("key", pa.string()), ("level", pa.int64())]))


def write(root: Path, *, operations: int, keys: int, pending: int, batches: int) -> int:
    """Writes the load and returns the rows to be measured, a need and an event being one row each.

    The first files hold what is pending and nothing else.
    """
    for name in ("operations", "events"):
        (root / name).mkdir(parents=True)
    # All but one before the watermark to come, so that they are taken in with their own micro-batch.
    begun = np.where(np.arange(pending) > 0, START_MS - 10_000, START_MS)
    _operations(root, 0, np.arange(pending), "wait", keys, begun, LONG_MS)
    _events(root, 0, np.array(["first"]), np.array([START_MS]))
    rng = np.random.default_rng(17)
    events = 0
    for batch in range(batches):
        ids = np.arange(batch * operations // batches, (batch + 1) * operations // batches)
        submitted = START_MS + ids * STEP_MS
        _operations(root, batch + 1, ids, "op", keys, submitted, DELAY_MS)
        every = np.repeat(ids, keys)
        names = _keys("op", every, np.tile(np.arange(keys), len(ids)))
        heard = rng.random(len(every)) < 0.8 ** (1 / keys)
        at = np.repeat(submitted, keys)
        # A key that is never heard of has its row count made up by a key nobody waits for.
        names = np.where(heard, names, np.char.add("x", names))
        _events(root, batch + 1, np.concatenate([names, names]), np.concatenate([at + 500, at + 700]))
        events += 2 * len(every)
    return operations * keys + events


def _keys(prefix: str, ids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return np.char.add(np.char.add(f"{prefix}-", ids.astype(str)), np.char.add("/", numbers.astype(str)))


def _operations(
    root: Path, number: int, ids: np.ndarray, prefix: str, keys: int, submitted: np.ndarray, delay_ms: int
) -> None:
    names = _keys(prefix, np.repeat(ids, keys), np.tile(np.arange(keys), len(ids)))
    count = len(ids)
    need = pa.StructArray.from_arrays(
        [pa.array(names.tolist(), pa.string()), pa.nulls(len(names), pa.int64())],
        fields=list(_NEEDS.value_type),
    )
    table = pa.table(
        {
            "op_id": pa.array([f"{prefix}-{i}" for i in ids]),
            "submitted_at": pa.array(submitted, pa.timestamp("ms")).cast(pa.timestamp("us", "UTC")),
            "delay_ms": pa.array(np.full(count, delay_ms)),
            "needs": pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * keys, pa.int32()), need),
            "quorum": pa.nulls(count, pa.int32()),
            "volume": pa.nulls(count, pa.int64()),
        }
    )
    pq.write_table(table, root / "operations" / f"{number:04}.parquet")


def _events(root: Path, number: int, names: np.ndarray, at: np.ndarray) -> None:
    order = np.argsort(at, kind="stable")
    table = pa.table(
        {
            "key": pa.array(names[order].tolist(), pa.string()),
            "at": pa.array(at[order], pa.timestamp("ms")).cast(pa.timestamp("us", "UTC")),
            "level": pa.nulls(len(at), pa.int64()),
        }
    )
    pq.write_table(table, root / "events" / f"{number:04}.parquet")
