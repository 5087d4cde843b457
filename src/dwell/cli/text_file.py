"""CSV and JSON lines as columns of text, read line by line as Spark reads them.

A line is a row, whatever is in it: a quote that is never closed spoils one line, not the rest of the file. The columns
of the contract stay text, and `text_value` reads them. Columns that pass through get the type Spark would give them.
"""

from __future__ import annotations

import bz2
import gzip
import json
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from dwell.cli.problem import Problem
from dwell.cli.text_value import DECODER, Number, encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

# Where a line that is no JSON goes, so that it is not lost; Spark's name for it.
CORRUPT = "_corrupt_record"

_OPENERS: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".bz2": bz2.open}
_BLANK = "".join(map(chr, range(0x21)))
_JSON_BLANK = " \t\r\n"
_LONG = range(-(2**63), 2**63)


def lines(file: Path) -> Iterator[str]:
    """The lines of a text file, packed or not, without their ends; those with nothing on them are left out."""
    # As `open` does, Hadoop ends a line at \n, \r\n and \r.
    with _OPENERS.get(file.suffix, open)(file, "rt", encoding="utf-8-sig", errors="replace") as text:
        for line in text:
            if line.strip(_BLANK):
                yield line.removesuffix("\n")


def read_csv(files: Iterable[Path], sep: str) -> Any:
    """All columns as text; a field with nothing in it is null, and short rows end in nulls."""
    files = list(files)
    names = columns_of(files, sep)
    width = len(names)
    rows: list[list[str | None]] = []
    for file in files:
        for line in islice(lines(file), 1, None):
            fields = _fields(line, sep)
            rows.append(fields[:width] + [None] * (width - len(fields)))
    columns = list(zip(*rows, strict=True)) or [() for _ in names]
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names)


def columns_of(files: Iterable[Path], sep: str) -> list[str]:
    """The columns of CSV files, which must be the same in all: Spark would take those of one file for all of them."""
    names: list[str] = []
    for file in files:
        header = next(lines(file), None)
        found = names if header is None else _names(_fields(header, sep))
        if names and found != names:
            raise Problem(f"{file} has other columns than the files beside it: make them alike, or name one file")
        names = found
    return names


def _names(header: list[str | None]) -> list[str]:
    """A column without a name gets one by its place, and so do those whose name comes twice."""
    lower = [name and name.lower() for name in header]
    return [
        f"_c{place}" if not name else f"{name}{place}" if lower.count(name.lower()) > 1 else name
        for place, name in enumerate(header)
    ]


def _fields(line: str, sep: str) -> list[str | None]:
    if '"' not in line:
        return [field or None for field in line.split(sep)]
    fields: list[str | None] = []
    start, end = 0, len(line)
    while True:
        field, start = _quoted(line, start, sep) if line.startswith('"', start) else _plain(line, start, sep)
        fields.append(field or None)
        if start > end:
            return fields


def _plain(line: str, start: int, sep: str) -> tuple[str, int]:
    end = line.find(sep, start)
    end = len(line) if end < 0 else end
    return line[start:end], end + len(sep)


def _quoted(line: str, start: int, sep: str) -> tuple[str, int]:
    """A field that begins with a quote, and where the next one begins."""
    parts = []
    at = start + 1
    while True:
        quote = line.find('"', at)
        if quote < 0:  # never closed: the rest of the line
            parts.append(line[at:])
            return ("".join(parts) or '"'), len(line) + 1
        parts.append(line[at:quote])
        at = quote + 1
        if line.startswith('"', at):
            parts.append('"')
            at += 1
            continue
        while line[at : at + 1] in (" ", "\t") and not line.startswith(sep, at):
            at += 1
        if at == len(line) or line.startswith(sep, at):
            return "".join(parts), at + len(sep)
        # More behind the closing quote: then quotes are letters like others, as far as the next separator.
        more, after = _plain(line, quote, sep)
        # One letter between a blank and a quote makes Spark's parser add a quote at the end of the line.
        adds = after > len(line) and at > quote + 1 and line[at] != '"' and line.startswith('"', at + 1)
        again = '"' if adds else ""
        return '"' + "".join(parts) + more + again, after


class _Value(NamedTuple):
    """A value of a JSON line: a string as what it says, anything else as it is written."""

    text: str
    is_string: bool


def read_json(files: Iterable[Path], ours: Iterable[str]) -> Any:
    """A row for each object. Of a line that is no JSON, all columns are null but `_corrupt_record`, which has the line.

    The columns `ours` are text. The columns are in the order of their names.
    """
    rows: list[dict[str, _Value | None]] = []
    for file in files:
        for line in lines(file):
            try:
                rows += _objects(line)
            except (ValueError, RecursionError):
                rows.append({CORRUPT: _Value(encodable(line), True)})
    kept: dict[str, str] = {}
    ours = set(ours)
    # Of names that differ in case only Spark can hold one: ours, or else the first.
    for name in sorted({name for row in rows for name in row}, key=lambda name: (name not in ours, name)):
        kept.setdefault(name.lower(), name)
    columns = {}
    for name in sorted(kept.values()):
        values = [row.get(name) for row in rows]
        columns[name] = _texts(values) if name in ours else _typed(values)
    return pa.table(columns)


def _objects(line: str) -> list[dict[str, _Value | None]]:
    """The objects of a line: one, or a list of them. What follows them is not looked at."""
    at = _skip(line, 0)
    if line.startswith("{", at):
        return [_object(line, at)[0]]
    if not line.startswith("[", at):
        raise ValueError(line)
    found = []
    at = _skip(line, at + 1)
    while not line.startswith("]", at):
        one, at = _object(line, at)
        found.append(one)
        at = _skip(line, at)
        if line.startswith(",", at):
            at = _skip(line, at + 1)
            if line.startswith("]", at):
                raise ValueError(line)
    return found


def _object(line: str, at: int) -> tuple[dict[str, _Value | None], int]:
    """The object at a place, and the place behind it."""
    if not line.startswith("{", at):
        raise ValueError(line)
    found: dict[str, _Value | None] = {}
    at = _skip(line, at + 1)
    if line.startswith("}", at):
        return found, at + 1
    while True:
        if not line.startswith('"', at):
            raise ValueError(line)
        name, at = DECODER.raw_decode(line, at)
        at = _skip(line, at)
        if not line.startswith(":", at):
            raise ValueError(line)
        at = _skip(line, at + 1)
        value, end = DECODER.raw_decode(line, at)
        if name in found:
            raise Problem(f"the column {name!r} comes twice in one row: rename one of the two")
        if value is None:
            found[name] = None
        elif isinstance(value, str) and not isinstance(value, Number):
            found[name] = _Value(encodable(value), True)
        else:
            found[name] = _Value(encodable(line[at:end]), False)
        at = _skip(line, end)
        if line.startswith("}", at):
            return found, at + 1
        if not line.startswith(",", at):
            raise ValueError(line)
        at = _skip(line, at + 1)


def _skip(line: str, at: int) -> int:
    while line[at : at + 1] and line[at] in _JSON_BLANK:
        at += 1
    return at


def _texts(values: list[_Value | None]) -> Any:
    return pa.array([None if value is None else value.text for value in values], pa.string())


def _typed(values: list[_Value | None]) -> Any:
    """A column that passes through: whole numbers, numbers, booleans, lists and objects if all are, or else text."""
    if any(value is not None and value.is_string for value in values) or not any(values):
        return _texts(values)
    plain = [None if value is None else json.loads(value.text) for value in values]
    kinds = {type(value) for value in plain if value is not None}
    try:
        if kinds == {int} and all(value is None or value in _LONG for value in plain):
            return pa.array(plain, pa.int64())
        if kinds <= {int, float}:
            return pa.array([None if value is None else float(value) for value in plain], pa.float64())
        if len(kinds) == 1:
            return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        pass  # they are not alike, or not UTF-8
    return _texts(values)
