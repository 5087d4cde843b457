"""Outcomes back to rows after the last shuffle."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from dwell.spark.stream.table import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

OUTCOME, LATE, SHARD = "outcome", "late", "shard"

# What stands beside the outcome in the rows of a shard's news.
BESIDE = pa.schema(
    [
        ("kind", pa.string()),
        ("key", pa.string()),
        ("at", pa.int64()),
        ("level", pa.int64()),
        ("pending", pa.int64()),
        ("aside", pa.int64()),
        ("watermark", pa.int64()),
    ]
)


def unpack(outcome: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """NEWS to rows: outcomes, late events, and one row a shard that says how it stands, told apart by `kind`."""
    return partial(_rows, outcome=outcome)


def _rows(batches: Iterable[pa.RecordBatch], outcome: pa.Schema) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([*outcome, *BESIDE])

    def filled(count: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    for batch in batches:
        for news in batch.to_pylist():
            if news["outcomes"] is not None:
                rows = load(news["outcomes"])
                kind = pa.array([OUTCOME] * rows.num_rows)
                yield filled(rows.num_rows, {**dict(zip(rows.schema.names, rows.columns, strict=True)), "kind": kind})
            if news["late"] is not None:
                rows = load(news["late"])
                kind = pa.array([LATE] * rows.num_rows)
                yield filled(rows.num_rows, {**dict(zip(rows.schema.names, rows.columns, strict=True)), "kind": kind})
            else:
                figures = {name: pa.array([news[name]], pa.int64()) for name in ("pending", "aside")}
                yield filled(1, {**figures, "watermark": pa.array([news["until"]]), "kind": pa.array([SHARD])})
