"""Outcomes back to rows after the last shuffle."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from dwell.spark.stream.table import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

OUTCOME, LATE, SHARD = "outcome", "late", "shard"

# What stands beside the outcome: which kind of row it is, a late event, or how a shard stands.
BESIDE = pa.schema(
    [
        ("kind", pa.string()),
        ("key", pa.string()),
        ("at", pa.int64()),
        ("level", pa.int64()),
        ("was", pa.string()),
        ("was_finished", pa.int64()),
        ("watermark", pa.int64()),
        ("pending", pa.int64()),
        ("aside", pa.int64()),
        ("late", pa.int64()),
    ]
)


def unpack(outcome: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """NEWS to rows: outcomes, late events, and one row a shard that says how it stands, told apart by `kind`."""
    return partial(_rows, schema=pa.schema([*outcome, *BESIDE]))


def _rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for kind, column in ((OUTCOME, "outcomes"), (LATE, "shown")):
            for packed in batch.column(column).drop_null():
                yield _filled(load(packed.as_py()), kind, schema)
        figures = batch.select(["until", "pending", "aside", "late"]).rename_columns(
            ["watermark", "pending", "aside", "late"]
        )
        yield _filled(figures, SHARD, schema)


def _filled(rows: pa.RecordBatch, kind: str, schema: pa.Schema) -> pa.RecordBatch:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns["kind"] = pa.array([kind] * rows.num_rows, pa.string())
    arrays = [columns.get(field.name, pa.nulls(rows.num_rows, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
