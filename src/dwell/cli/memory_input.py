"""An input as columns by the contract's names, for the engine that needs no Java."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import dataset

from dwell.cli import text_value
from dwell.cli.inputs import files_of
from dwell.cli.output import is_local
from dwell.cli.problem import Problem
from dwell.cli.text_file import read_csv, read_json
from dwell.ledger import Event, Need, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwell.cli.inputs import Input, Inputs

NUMBERS = ("delay_ms", "quorum", "volume", "level")
TIMES = ("submitted_at", "at")

# Microseconds per unit of a timestamp; of nanoseconds, see `_micros`.
UNITS_US = {"s": 1_000_000, "ms": 1000, "us": 1}


class Table:
    """The columns of one input by our names, as Python values, and the columns that pass through, as Arrow.

    Times are microseconds since 1970, as they were given.
    """

    def __init__(self, source: Input, *, within_ms: int | None = None) -> None:
        table = _read(source)
        places = source.places(table.column_names, given=[] if within_ms is None else ["delay_ms"])
        self.rows: int = table.num_rows
        self.has_zone = all(
            not pa.types.is_timestamp(kind) or kind.tz is not None
            for kind in (table.schema.field(theirs).type for ours, theirs in places.items() if ours in TIMES)
        )
        self._columns = {ours: _values(source, ours, table.column(theirs)) for ours, theirs in places.items()}
        if within_ms is not None:
            self._columns["delay_ms"] = [within_ms] * self.rows
        used = {*places.values(), *source.wanted}
        self.extras = table.select([name for name in table.column_names if name not in used])

    def column(self, ours: str) -> list[Any]:
        return self._columns.get(ours) or [None] * self.rows


def read_waits(inputs: Inputs) -> tuple[list[Wait], Table]:
    table = Table(inputs.operations, within_ms=inputs.within_ms)
    columns = [table.column(name) for name in ("op_id", "needs", "delay_ms", "submitted_at", "quorum", "volume")]
    columns[3] = _millis(columns[3])
    return [Wait(*row) for row in zip(*columns, strict=True)], table


def read_events(inputs: Inputs) -> list[Event]:
    table = Table(inputs.events)
    at_ms = _millis(table.column("at"))
    return [Event(*row) for row in zip(table.column("key"), at_ms, table.column("level"), strict=True)]


def _millis(micros: list[int | None]) -> list[int | None]:
    """Whole milliseconds, towards the past, as in the contract."""
    return [None if at is None else at // 1000 for at in micros]


def _read(source: Input) -> Any:
    if source.sql is not None:
        raise Problem(f"--{source.what}-sql needs Spark: leave --engine memory out")
    if source.format not in ("parquet", "csv", "json") or not is_local(source.path):
        raise Problem(
            f"--engine memory reads Parquet, CSV and JSON lines on this machine, not {source.path} ({source.format})"
        )
    if set(source.options) - {"sep"}:
        raise Problem("--engine memory knows no --option but sep: leave --engine memory out for Spark's readers")
    files = files_of(source.path)
    if source.format == "json" and all(file.stat().st_size == 0 for file in files):
        raise Problem(f"{source.what}: {source.path} is empty, it has not even a header")
    try:
        if source.format == "csv":
            return read_csv(files, source.options.get("sep", ","))
        if source.format == "json":
            return read_json(files, [source.columns.get(name, name) for name in source.wanted])
        return dataset.dataset([str(file) for file in files], format=source.format).to_table()
    except (pa.ArrowInvalid, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's own words; Arrow's have no number
        # Arrow tells the way it took before the reason.
        why = str(error).splitlines()[0].rpartition("Invalid: ")[2]
        raise Problem(
            f"{source.what}: {source.path} cannot be read as {source.format} ({why}): put it right, or fetch it again"
        ) from error


def _values(source: Input, ours: str, column: Any) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks().dictionary_decode()
    kind, values = column.type, column
    if pa.types.is_null(kind):
        return [None] * len(column)
    if ours == "needs":
        return _needs(source, column)
    if ours in TIMES:
        if _is_text(kind):
            return [text_value.time_us(text) for text in values.to_pylist()]
        if pa.types.is_timestamp(kind):
            return _micros(column)
        raise Problem(f"{source.what}: the column {ours!r} must be a timestamp, it is {kind}")
    if ours in NUMBERS:
        if _is_text(kind):
            return [text_value.number(text) for text in values.to_pylist()]
        if _is_whole(kind):
            return _list(values)
        raise Problem(f"{source.what}: the column {ours!r} must be a whole number, it is {kind}")
    if _is_text(kind) or _is_whole(kind):
        return _list(values.cast(pa.string()))
    raise Problem(f"{source.what}: the column {ours!r} must be text, it is {kind}")


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_whole(kind: Any) -> bool:
    # Spark has no unsigned integer of 64 bits.
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()


def _list(values: Any) -> list[Any]:
    listed: list[Any] = values.to_pylist()
    return listed


def _micros(column: Any) -> list[int | None]:
    """A time without a zone is UTC."""
    numbers: list[int | None] = column.cast(pa.int64()).to_pylist()
    if column.type.unit == "ns":
        return [None if at is None else at // 1000 for at in numbers]
    unit_us = UNITS_US[column.type.unit]
    return [None if at is None else at * unit_us for at in numbers]


def _needs(source: Input, column: Any) -> list[list[Need] | None]:
    """Lists of keys or of structs, JSON and single keys as text: all become needs."""
    kind = column.type
    if _is_text(kind):
        return [text_value.needs(text) for text in column.to_pylist()]
    each = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if each is not None and (_is_text(each) or _is_whole(each)):
        return [None if keys is None else [Need(_text(key)) for key in keys] for keys in column.to_pylist()]
    if each is not None and pa.types.is_struct(each):
        types = {field.name: field.type for field in each}
        if "key" in types and all(
            _is_text(types[name]) or _is_whole(types[name]) for name in ("key", "level") if name in types
        ):
            return [None if needs is None else _of_structs(needs) for needs in column.to_pylist()]
    raise Problem(f"{source.what}: the column 'needs' must be a list of keys, or of key and level, it is {kind}")


def _of_structs(needs: Iterable[dict[str, Any] | None]) -> list[Need] | None:
    found = []
    for need in needs:
        said = None if need is None else need.get("level")
        level = text_value.number(_text(said))
        if said is not None and level is None:
            return None  # without its level the need would be another one
        found.append(Need(None if need is None else _text(need["key"]), level))
    return found


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
