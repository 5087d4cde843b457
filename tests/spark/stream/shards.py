"""Both stages driven by hand, without Spark: rows in, micro-batch by micro-batch, outcomes out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dwell.contract.order import content
from dwell.ledger import Event, Need, Outcome, Wait
from dwell.ledger.admission import fault, is_usable_event
from dwell.spark.stream import keys, operations
from dwell.spark.stream.clock import EVENTS, OPERATIONS, START, Beat
from dwell.spark.stream.keys import KeyRows
from dwell.spark.stream.operations import OperationRows, layout
from dwell.spark.stream.store import Header, Layout, Tables
from dwell.spark.stream.table import EVENT, NEED, cells, ints, joined, where
from dwell.spark.stream.terms import Terms
from dwell.spark.stream.timeline import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dwell.spark.stream.table import Ints

OPS = pa.schema(
    [
        ("op_id", pa.string()),
        ("hash", pa.int64()),
        ("tag", pa.int64()),
        ("submitted", pa.int64()),
        ("delay", pa.int64()),
        ("needs", pa.list_(pa.struct([("key", pa.string()), ("level", pa.int64())]))),
        ("quorum", pa.int64()),
        ("volume", pa.int64()),
        ("fault", pa.string()),
    ]
)


class MemoryStore:
    """Counts what is read of it, and how often a part is written."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.kept: dict[int, Tables] = {}
        self.slices: dict[int, Tables] = {}
        self.hashes = np.zeros(0, np.int64)
        self.entries: list[Tables] = []
        self.reads = 0
        self.writes = 0
        self._header: str | None = None
        self._directory: str | None = None

    def header(self) -> Header | None:
        return None if self._header is None else json.loads(self._header)

    def keep_header(self, header: Header) -> None:
        self._header = json.dumps(header)

    def directory(self) -> Header | None:
        self.reads += 1
        return None if self._directory is None else json.loads(self._directory)

    def keep_directory(self, directory: Header) -> None:
        self._directory = json.dumps(directory)

    def parts(self, numbers: list[int], there: int) -> list[Tables]:
        assert there == len(self.kept)
        self.reads += len(numbers)
        return [self.kept[number] for number in numbers]

    def keep_part(self, number: int, tables: Tables) -> None:
        assert any(table.num_rows for table in tables.values())
        self.writes += 1
        self.kept[number] = tables

    def drop_part(self, number: int) -> None:
        del self.kept[number]

    def index(self) -> Ints:
        self.reads += 1
        return self.hashes

    def keep_index(self, hashes: Ints) -> None:
        self.hashes = hashes

    def log(self) -> Tables:
        return {
            name: joined([tables[name] for tables in self.entries if name in tables], schema)
            for name, schema in self.layout.log.items()
        }

    def append(self, tables: Tables) -> None:
        self.entries.append(tables)

    def rewrite_log(self, tables: Tables) -> None:
        self.entries = [tables]

    def slice(self, number: int) -> Tables:
        self.reads += 1
        return self.slices[number]

    def keep_slice(self, number: int, tables: Tables) -> None:
        assert number not in self.slices
        self.slices[number] = tables

    def drop_slice(self, number: int) -> None:
        del self.slices[number]

    def rows(self, name: str) -> int:
        """How many of this table there are, wherever they lie."""
        places = (*self.kept.values(), *self.slices.values(), *self.entries)
        return sum(tables[name].num_rows for tables in places if name in tables)

    def check(self, cells_of: Callable[[pa.RecordBatch], Ints]) -> None:
        """Everything lies where the directory says, and nothing comes due that the header does not know of."""
        header, directory = self.header(), self.directory()
        if header is None or directory is None:
            return
        rows, wakes, overs, _ = zip(*directory["parts"], strict=True)
        assert {number: count(tables) for number, tables in self.kept.items()} == {
            number: size for number, size in enumerate(rows) if size
        }
        cells_in = {
            number: np.concatenate([cells_of(table) for table in self.kept[number].values()]) for number in self.kept
        }
        assert all((held & (len(rows) - 1) == number).all() for number, held in cells_in.items())
        assert self.hashes.tolist() == sorted({cell for held in cells_in.values() for cell in held.tolist()})
        assert count(self.log()) == directory["logged"]
        first = {
            number: min(int(ints(tables[name], time).min(initial=NEVER)) for name, time in self.layout.times.items())
            for number, tables in self.slices.items()
        }
        assert sorted(directory["slices"]) == [
            [number, count(tables), first[number]] for number, tables in sorted(self.slices.items())
        ]
        assert header["next"] <= min([*wakes, *overs, *first.values(), directory["log_wake"]])


def count(tables: Tables) -> int:
    return sum(table.num_rows for table in tables.values())


class Shards:
    """A whole settlement; `batch` is one micro-batch."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.keys = [MemoryStore(keys.LAYOUT) for _ in range(terms.shards)]
        self.ops = [MemoryStore(layout(OPS)) for _ in range(terms.shards)]
        self.late = 0
        self.shown: list[dict[str, Any]] = []
        self.pending = 0

    def batch(self, waits: Sequence[Wait], events: Sequence[Event], now_ms: int | None = None) -> list[Outcome]:
        sound = [wait for wait in waits if fault(*wait) is None]
        usable = [event for event in events if is_usable_event(event)]
        beat = Beat(now_ms=now_ms)
        times = [wait.submitted_at_ms for wait in sound if wait.submitted_at_ms is not None]
        beat.saw(OPERATIONS, len(sound), max(times, default=None))
        beat.saw(EVENTS, len(usable), max((event.at_ms for event in usable if event.at_ms is not None), default=None))
        heard = self._cut([{"key": e.key, "at": e.at_ms, "level": e.level} for e in usable], "key", EVENT)
        asked = self._cut([need for wait in sound for need in needs(wait)], "key", NEED)
        own = self._cut([operation(wait) for wait in waits], "op_id", OPS)
        told = [
            keys.step(store, self.terms, KeyRows(beat, asked[shard], heard[shard]))
            for shard, store in enumerate(self.keys)
        ]
        self.late += sum(news.late for news in told)
        met = self._spread([news.met for news in told])
        shown = self._spread([news.shown for news in told])
        until = told[0].until
        outcomes: list[Outcome] = []
        self.pending = 0
        for shard, store in enumerate(self.ops):
            given = OperationRows(until, own[shard], met[shard], shown[shard])
            said = operations.step(store, self.terms, OPS, given)
            self.shown += said.late.to_pylist()
            self.pending += said.pending
            outcomes += [
                Outcome(
                    row["op_id"],
                    row["outcome"],
                    row["finished"],
                    row["waited"],
                    row["completed_by"],
                    row["reason"],
                )
                for row in said.outcomes.to_pylist()
            ]
        return outcomes

    def check(self) -> None:
        for store in self.keys:
            store.check(lambda table: ints(table, "cell"))
        for store in self.ops:
            store.check(lambda table: cells(ints(table, "hash"), self.terms.shards))

    @property
    def watermark_ms(self) -> int:
        header = self.keys[0].header()
        return START if header is None else int(header["clock"]["watermark_ms"])

    @staticmethod
    def alone(shown: list[dict[str, Any]]) -> Counter[Event]:
        """The late events shown by themselves."""
        return Counter(Event(row["key"], row["at"], row["level"]) for row in shown if row["op_id"] is None)

    @staticmethod
    def would(shown: list[dict[str, Any]], event: Event) -> set[Outcome]:
        return {
            Outcome(row["op_id"], row["outcome"], row["finished"], row["waited"], row["completed_by"])
            for row in shown
            if Event(row["key"], row["at"], row["level"]) == event and row["op_id"] is not None
        }

    def _cut(self, rows: list[dict[str, Any]], by: str, schema: pa.Schema) -> list[list[pa.RecordBatch]]:
        count = self.terms.shards
        rows = [{**row, "cell": int(cells(np.array([number(row[by])]), count)[0])} for row in rows]
        shards = [[row for row in rows if number(row[by]) % count == i] for i in range(count)]
        return [[pa.RecordBatch.from_pylist(part, schema)] for part in shards]

    def _spread(self, batches: list[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
        return [
            [where(batch, ints(batch, "hash") % self.terms.shards == i) for batch in batches]
            for i in range(self.terms.shards)
        ]


def number(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "big", signed=True)


def operation(wait: Wait) -> dict[str, Any]:
    return {
        "op_id": wait.op_id,
        "hash": number(wait.op_id),
        "tag": number(content(wait)),
        "submitted": wait.submitted_at_ms,
        "delay": wait.delay_ms,
        "needs": None if wait.needs is None else [need._asdict() for need in sorted_needs(wait)],
        "quorum": wait.quorum,
        "volume": wait.volume,
        "fault": fault(*wait),
    }


def sorted_needs(wait: Wait) -> list[Need]:
    return sorted(wait.needs or [], key=lambda need: (need.key is not None, need.key or ""))


def needs(wait: Wait) -> list[dict[str, Any]]:
    assert wait.submitted_at_ms is not None
    assert wait.delay_ms is not None
    return [
        {
            "key": need.key,
            "level": need.level,
            "submitted": wait.submitted_at_ms,
            "deadline": wait.submitted_at_ms + wait.delay_ms,
            "hash": number(wait.op_id),
            "tag": number(content(wait)),
            "no": no,
            "volume": wait.volume is not None,
        }
        for no, need in enumerate(sorted_needs(wait))
    ]
