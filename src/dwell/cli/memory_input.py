"""An input as an Arrow table with the contract's columns, for the engine that needs no Java."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import zlib
from glob import glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from dwell.cli.output import is_local
from dwell.cli.problem import Problem
from dwell.ledger import Event, Need, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from dwell.cli.inputs import Input, Inputs

# In the order of the contract; a column of text is read as this, and what cannot be read as it is null.
NUMBERS = ("delay_ms", "quorum", "volume", "level")
TIMES = ("submitted_at", "at")

MILLISECONDS = pa.timestamp("ms", tz="UTC")


class Table:
    """The columns of one input by our names, as Python values, and the columns that pass through, as Arrow."""

    def __init__(self, source: Input, *, within_ms: int | None = None) -> None:
        table = _read(source)
        places = source.places(table.column_names, given=[] if within_ms is None else ["delay_ms"])
        self.rows: int = table.num_rows
        self._columns = {ours: _values(source, ours, table.column(theirs)) for ours, theirs in places.items()}
        if within_ms is not None:
            self._columns["delay_ms"] = [within_ms] * self.rows
        used = {*places.values(), *source.wanted}
        self.extras = table.select([name for name in table.column_names if name not in used])

    def column(self, ours: str) -> list[Any]:
        return self._columns.get(ours) or [None] * self.rows


def read_waits(inputs: Inputs) -> tuple[list[Wait], Table]:
    table = Table(inputs.operations, within_ms=inputs.within_ms)
    names = ("op_id", "needs", "delay_ms", "submitted_at", "quorum", "volume")
    return [Wait(*row) for row in zip(*(table.column(name) for name in names), strict=True)], table


def read_events(inputs: Inputs) -> list[Event]:
    table = Table(inputs.events)
    return [Event(*row) for row in zip(table.column("key"), table.column("at"), table.column("level"), strict=True)]


def _read(source: Input) -> Any:
    if source.sql is not None:
        raise Problem(f"--{source.what}-sql needs Spark: leave --engine memory out")
    if source.format not in ("parquet", "csv", "json") or not is_local(source.path):
        raise Problem(
            f"--engine memory reads Parquet, CSV and JSON lines on this machine, not {source.path} ({source.format})"
        )
    if set(source.options) - {"sep"}:
        raise Problem("--engine memory knows no --option but sep: leave --engine memory out for Spark's readers")
    files = _files(source.path)
    if source.format == "json" and all(file.stat().st_size == 0 for file in files):
        raise Problem(f"{source.what}: {source.path} is empty, it has not even a header")
    try:
        if source.format == "csv":
            sep = source.options.get("sep", ",")
            return pa.concat_tables([_read_csv(file, sep) for file in files], promote_options="default")
        return dataset.dataset([str(file) for file in files], format=source.format).to_table()
    except (pa.ArrowInvalid, csv.Error, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's own words; Arrow's have no number
        # Arrow tells the way it took before the reason.
        why = str(error).splitlines()[0].rpartition("Invalid: ")[2]
        raise Problem(
            f"{source.what}: {source.path} cannot be read as {source.format} ({why}): put it right, or fetch it again"
        ) from error


def _files(path: str) -> list[Path]:
    """A file, those of a directory, or those of a pattern; Spark's own notes left out."""
    place = Path(path)
    places = [place] if place.exists() else [Path(match) for match in sorted(glob(path))]
    found = [file for one in places for file in ([one] if one.is_file() else sorted(one.rglob("*"))) if file.is_file()]
    if not found:
        raise Problem(f"{path} holds no data files: check the path")
    return [file for file in found if file.name[0] not in "._"]


def _read_csv(file: Path, sep: str) -> Any:
    """All of it as text, as on Spark: our own cast makes null of what is no time or number. Short rows end in nulls."""
    ways: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".bz2": bz2.open}
    with ways.get(file.suffix, open)(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
        rows = csv.reader(text, delimiter=sep)
        names = next(filter(None, rows), [])
        fields = zip(*(row[: len(names)] + [""] * (len(names) - len(row)) for row in rows if row), strict=True)
        columns = [[field or None for field in column] for column in fields] or [[] for _ in names]
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names)


def _values(source: Input, ours: str, column: Any) -> list[Any]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.combine_chunks().dictionary_decode()
        kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if ours == "needs":
        return [_needs(value) for value in column.to_pylist()]
    if ours in TIMES:
        if is_text:
            return [_time_ms(text) for text in column.to_pylist()]
        if not (pa.types.is_timestamp(kind) or pa.types.is_null(kind)):
            raise Problem(f"{source.what}: the column {ours!r} must be a timestamp, it is {kind}")
        # Whole milliseconds, towards the past, as in the contract; a time without a zone is UTC.
        floored = pc.floor_temporal(column, unit="millisecond")
        plain: list[Any] = floored.cast(MILLISECONDS if kind.tz else pa.timestamp("ms")).cast(pa.int64()).to_pylist()
        return plain
    if ours in NUMBERS:
        if is_text:
            return [_number(text) for text in column.to_pylist()]
        if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise Problem(f"{source.what}: the column {ours!r} must be a whole number, it is {kind}")
        numbers: list[Any] = column.to_pylist()
        return numbers
    texts: list[Any] = column.cast(pa.string()).to_pylist()
    return texts


def _needs(value: Any) -> list[Need] | None:
    """Lists of keys, of structs with or without a level, JSON and single keys as text: all become needs."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return [Need(value)]
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if value is None:
        return None
    return [
        Need(one) if isinstance(one, str) else Need(None) if one is None else Need(one["key"], one.get("level"))
        for one in value
    ]


def _time_ms(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        scalar = pa.scalar(text.strip().replace("T", " ")).cast(pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid:
        try:
            scalar = pa.scalar(text.strip().replace("T", " ")).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            return None
    return int(scalar.value) // 1000


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
