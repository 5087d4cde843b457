"""Operations and events as streams of files, one file of each kind a micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from dwell.ledger import Event, Need, Outcome, Wait

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

# After all else that happens.
END_MS = 10**9

_NEEDS = pa.list_(pa.struct([("key", pa.string()), ("level", pa.int64())]))
_OPS = pa.schema(
    [
        ("op_id", pa.string()),
        ("ms", pa.int64()),
        ("delay_ms", pa.int64()),
        ("needs", _NEEDS),
        ("quorum", pa.int64()),
        ("volume", pa.int64()),
        ("note", pa.string()),
    ]
)
_EVENTS = pa.schema([("key", pa.string()), ("ms", pa.int64()), ("level", pa.int64())])


class Feed:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._files = 0
        for name in ("operations", "events"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def add(self, waits: Sequence[Wait], events: Sequence[Event]) -> None:
        self._files += 1
        ops = [
            {
                "op_id": wait.op_id,
                "ms": wait.submitted_at_ms,
                "delay_ms": wait.delay_ms,
                "needs": None if wait.needs is None else [need._asdict() for need in wait.needs],
                "quorum": wait.quorum,
                "volume": wait.volume,
                "note": f"about {wait.op_id}",
            }
            for wait in waits
        ]
        heard = [{"key": event.key, "ms": event.at_ms, "level": event.level} for event in events]
        for name, rows, schema in (("operations", ops, _OPS), ("events", heard, _EVENTS)):
            path = self.root / name / f"{self._files:06}.parquet"
            hidden = path.with_name(f".{path.name}")
            pq.write_table(pa.Table.from_pylist(rows, schema), hidden)
            hidden.rename(path)

    def end(self) -> None:
        """Rows that move the watermark past all others; the operation `end` stays pending."""
        self.add([Wait("end", [Need("end")], 0, END_MS)], [Event("other", END_MS)])

    def read(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """With watermarks of Spark's own, which must not matter."""

        def stream(name: str, schema: str) -> DataFrame:
            reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            return reader.parquet(str(self.root / name))

        needs = "array<struct<key: string, level: bigint>>"
        ops = stream(
            "operations",
            f"op_id string, ms bigint, delay_ms bigint, needs {needs}, quorum bigint, volume bigint, note string",
        )
        events = stream("events", "key string, ms bigint, level bigint")
        return (
            ops.withColumn("submitted_at", F.timestamp_millis("ms"))
            .drop("ms")
            .withWatermark("submitted_at", "0 seconds"),
            events.withColumn("at", F.timestamp_millis("ms")).drop("ms").withWatermark("at", "0 seconds"),
        )


def outcomes(frame: DataFrame) -> list[Outcome]:
    """A frame of outcomes, collected."""
    rows = frame.select("op_id", "outcome", F.unix_millis("finished_at"), "waited_ms", "completed_by", "reason")
    return [Outcome(*row) for row in rows.collect()]
