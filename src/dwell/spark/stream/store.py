"""Where the rows of a shard lie between micro-batches: the state variables of one stage.

header      a few numbers that every micro-batch needs
directory   what lies where; read when there is something to do
parts       what is known up to the last fold, cut by hash
index       which hashes are in parts
log         rows the watermark has passed since
slices      rows it has not passed yet, cut by time
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from dwell.spark.stream.table import LASTING, PASSING, empty, fitted, from_text, ints, joined, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from dwell.spark.stream.table import Ints

Header = dict[str, Any]
Schemas = dict[str, "pa.Schema"]
Tables = dict[str, "pa.RecordBatch"]


class Layout(NamedTuple):
    """The tables of a stage: those in parts, those in the log, and which of the latter have slices, by what time."""

    parts: Schemas
    log: Schemas
    times: dict[str, str]

    @property
    def slices(self) -> Schemas:
        return {name: self.log[name] for name in self.times}


class Store(Protocol):
    layout: Layout

    def header(self) -> Header | None: ...
    def keep_header(self, header: Header) -> None: ...
    def directory(self) -> Header | None: ...
    def keep_directory(self, directory: Header) -> None: ...
    def parts(self, numbers: list[int], there: int) -> list[Tables]: ...
    def keep_part(self, number: int, tables: Tables) -> None: ...
    def drop_part(self, number: int) -> None: ...
    def index(self) -> Ints: ...
    def keep_index(self, hashes: Ints) -> None: ...
    def log(self) -> Tables: ...
    def append(self, tables: Tables) -> None: ...
    def rewrite_log(self, tables: Tables) -> None: ...
    def slice(self, number: int) -> Tables: ...
    def keep_slice(self, number: int, tables: Tables) -> None: ...
    def drop_slice(self, number: int) -> None: ...


class StateStore:
    """For the grouping key that Spark's state is set to."""

    def __init__(self, handle: StatefulProcessorHandle, stage: str, layout: Layout) -> None:
        def columns(schemas: Schemas) -> str:
            return ", ".join(f"{name} string" for name in schemas)

        self.layout = layout
        self._header = handle.getValueState(f"{stage}_header", "json string")
        self._directory = handle.getValueState(f"{stage}_directory", "json string")
        self._parts = handle.getMapState(f"{stage}_parts", "part int", columns(layout.parts))
        self._index = handle.getValueState(f"{stage}_index", "hashes string")
        self._log = handle.getListState(f"{stage}_log", "name string, rows string")
        self._slices = handle.getMapState(f"{stage}_slices", "slice bigint", columns(layout.slices))

    def header(self) -> Header | None:
        kept = self._header.get()
        return None if kept is None else json.loads(kept[0])

    def keep_header(self, header: Header) -> None:
        self._header.update((json.dumps(header),))

    def directory(self) -> Header | None:
        kept = self._directory.get()
        return None if kept is None else json.loads(kept[0])

    def keep_directory(self, directory: Header) -> None:
        self._directory.update((json.dumps(directory),))

    def parts(self, numbers: list[int], there: int) -> list[Tables]:
        """These of so many as there are."""
        # One by one costs a call each.
        if 2 * len(numbers) <= there:
            return [_tables(self._parts.getValue((number,)), self.layout.parts) for number in numbers]
        wanted = set(numbers)
        found = {number: texts for (number,), texts in self._parts.iterator() if number in wanted}
        return [_tables(found.get(number), self.layout.parts) for number in numbers]

    def keep_part(self, number: int, tables: Tables) -> None:
        self._parts.updateValue((number,), _texts(tables, self.layout.parts, LASTING))

    def drop_part(self, number: int) -> None:
        self._parts.removeKey((number,))

    def index(self) -> Ints:
        kept = self._index.get()
        return np.zeros(0, np.int64) if kept is None else np.cumsum(ints(from_text(kept[0]), "step"))

    def keep_index(self, hashes: Ints) -> None:
        # Steps from one to the next are small.
        steps = pa.array(np.diff(hashes, prepend=0), pa.int32())
        self._index.update((to_text(pa.RecordBatch.from_arrays([steps], names=["step"]), LASTING),))

    def log(self) -> Tables:
        kept: dict[str, list[pa.RecordBatch]] = {name: [] for name in self.layout.log}
        for name, text in self._log.get():
            kept[name].append(fitted(from_text(text), self.layout.log[name]))
        return {name: joined(kept[name], schema) for name, schema in self.layout.log.items()}

    def append(self, tables: Tables) -> None:
        self._log.appendList(_entries(tables))

    def rewrite_log(self, tables: Tables) -> None:
        if entries := _entries(tables):
            self._log.put(entries)
        else:
            self._log.clear()

    def slice(self, number: int) -> Tables:
        return _tables(self._slices.getValue((number,)), self.layout.slices)

    def keep_slice(self, number: int, tables: Tables) -> None:
        self._slices.updateValue((number,), _texts(tables, self.layout.slices, PASSING))

    def drop_slice(self, number: int) -> None:
        self._slices.removeKey((number,))


def _entries(tables: Tables) -> list[tuple[str, str]]:
    return [(name, to_text(table, PASSING)) for name, table in tables.items() if table.num_rows]


def _texts(tables: Tables, schemas: Schemas, codec: str) -> tuple[str | None, ...]:
    return tuple(to_text(tables[name], codec) if tables[name].num_rows else None for name in schemas)


def _tables(texts: Iterable[str | None] | None, schemas: Schemas) -> Tables:
    if texts is None:
        raise LookupError("the state store does not have rows that its directory names")
    return {
        name: empty(schema) if text is None else fitted(from_text(text), schema)
        for (name, schema), text in zip(schemas.items(), texts, strict=True)
    }
