"""A week of outcomes whose figures can be worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 3, 2, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", tz="UTC")
NEED = pa.list_(pa.struct([("key", pa.string()), ("level", pa.int64())]))


@pytest.fixture
def settled(tmp_path: Path) -> Path:
    """1,000 operations, one a minute, each with a delay of 1,000 ms: 900 waited 1 to 900 ms, 98 expired, 2 rejected.

    The expired ones waited for key `k0`, `k1` and `k2` in turn, the others for `good`.
    """
    place = tmp_path / "settled"
    (place / "outcomes").mkdir(parents=True)
    rows = []
    for i in range(1000):
        at = START + timedelta(minutes=i)
        row = {"op_id": f"o{i}", "outcome": "completed", "submitted_at": at, "waited_ms": i + 1, "delay_ms": 1000}
        row["needs"] = [{"key": "good", "level": None}]
        if i >= 900:
            row |= {"outcome": "expired", "waited_ms": 1000, "needs": [{"key": f"k{i % 3}", "level": None}]}
        if i >= 998:
            row |= {"outcome": "rejected", "waited_ms": None, "reason": f"delay_ms is negative: -{i}"}
        else:
            row["finished_at"] = at + timedelta(milliseconds=int(str(row["waited_ms"])))
        rows.append(row)
    schema = pa.schema(
        [
            ("op_id", pa.string()),
            ("outcome", pa.string()),
            ("finished_at", TIMESTAMP),
            ("waited_ms", pa.int64()),
            ("completed_by", pa.string()),
            ("reason", pa.string()),
            ("submitted_at", TIMESTAMP),
            ("delay_ms", pa.int64()),
            ("needs", NEED),
        ]
    )
    table = pa.Table.from_pylist(rows, schema=schema)
    parquet.write_table(table.slice(0, 600), place / "outcomes" / "part-0.parquet")
    parquet.write_table(table.slice(600), place / "outcomes" / "part-1.parquet")
    return place
