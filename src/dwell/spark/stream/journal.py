"""What a shard keeps between micro-batches: a small header, a snapshot, and a log of what came since.

A micro-batch writes what it brought to the end of the log: what it writes follows what arrived. When the log has
grown to a part of the snapshot's size both are folded into a new snapshot: a row is rewritten a few times in its life,
however many batches it waits. So they are when that part of the rows is of no more use.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from dwell.errors import InvalidArgument
from dwell.spark.stream.table import empty, fitted, from_text, joined, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

# Of all that is written here; raised when an older version could not read it.
FORMAT = 2

# Rows a log may hold whatever the snapshot's size: below this a fold costs more than reading the log.
SHORT_LOG = 4096

Header = dict[str, Any]
Schemas = dict[str, "pa.Schema"]
Tables = dict[str, "pa.RecordBatch"]


class Journal(Protocol):
    def header(self) -> Header | None: ...
    def keep_header(self, header: Header) -> None: ...
    def snapshot(self) -> Tables: ...
    def log(self) -> Tables: ...
    def append(self, tables: Tables) -> None: ...
    def rewrite(self, snapshot: Tables, log: Tables) -> None: ...


class StateJournal:
    """A journal in the state store, for the key the store is set to."""

    def __init__(self, handle: StatefulProcessorHandle, stage: str, snapshot: Schemas, log: Schemas) -> None:
        self._schemas, self._log_schemas = snapshot, log
        columns = ", ".join(f"{name} string" for name in snapshot)
        self._header = handle.getValueState(f"{stage}_header", "json string")
        self._snapshot = handle.getValueState(f"{stage}_snapshot", columns)
        self._log = handle.getListState(f"{stage}_log", "name string, rows string")

    def header(self) -> Header | None:
        kept = self._header.get()
        return None if kept is None else json.loads(kept[0])

    def keep_header(self, header: Header) -> None:
        self._header.update((json.dumps(header),))

    def snapshot(self) -> Tables:
        kept = self._snapshot.get()
        if kept is None:
            return {name: empty(schema) for name, schema in self._schemas.items()}
        texts = zip(self._schemas.items(), kept, strict=True)
        return {name: fitted(from_text(text), schema) for (name, schema), text in texts}

    def log(self) -> Tables:
        kept: dict[str, list[pa.RecordBatch]] = {name: [] for name in self._log_schemas}
        for name, text in self._log.get():
            kept[name].append(fitted(from_text(text), self._log_schemas[name]))
        return {name: joined(kept[name], schema) for name, schema in self._log_schemas.items()}

    def append(self, tables: Tables) -> None:
        rows = [(name, to_text(table)) for name, table in tables.items() if table.num_rows]
        if rows:
            self._log.appendList(rows)

    def rewrite(self, snapshot: Tables, log: Tables) -> None:
        self._snapshot.update(tuple(to_text(snapshot[name]) for name in self._schemas))
        self._log.clear()
        self.append(log)


def opened(header: Header | None, shards: int, new: Header) -> Header:
    """The header to go on with, or an error before any harm if the checkpoint was written under other terms."""
    if header is None:
        return {"format": FORMAT, "shards": shards, "kept": 0, "logged": 0, "spent": 0, **new}
    if header["format"] != FORMAT:
        raise InvalidArgument(
            f"the checkpoint has state of format {header['format']}, this version of dwell writes format {FORMAT}: "
            "go on with the version that wrote it, or start with a new checkpoint"
        )
    if header["shards"] != shards:
        raise InvalidArgument(
            f"shards is {shards}, but the checkpoint was started with {header['shards']}: "
            "it cannot change over a checkpoint"
        )
    return header


def is_long(header: Header) -> bool:
    """Is it worth folding: are there so many rows in the log, or so many that could leave?"""
    return bool(max(header["logged"], header["spent"]) > max(SHORT_LOG, header["kept"] // 2))


def folded(header: Header, tables: Iterable[pa.RecordBatch]) -> None:
    """Note that there is a new snapshot, and that these tables are all there is."""
    header["kept"] = sum(table.num_rows for table in tables)
    header["logged"] = header["spent"] = 0
