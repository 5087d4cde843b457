"""What the arguments say of the two inputs, before any engine reads them."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dwell.cli.output import is_local
from dwell.cli.problem import Problem

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

# What --format takes by name, and the endings it is known by; `table` is a table of Spark's catalogue.
FORMATS: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz", ".csv.bz2"),
    "json": (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
    "table": (),
}

# What else than a comma stands between the columns of a CSV file.
SEPARATORS = (";", "\t", "|")

# Each column, and what to do when it is not there; None: it need not be.
OPERATIONS: dict[str, str | None] = {
    "op_id": "name yours with --map op_id=COLUMN",
    "submitted_at": "name yours with --map submitted_at=COLUMN",
    "delay_ms": "name yours with --map delay_ms=COLUMN, or give one delay for all, as --within 30m",
    "needs": "name yours with --map needs=COLUMN; a text column holds the key to wait for",
    "quorum": None,
    "volume": None,
}
EVENTS: dict[str, str | None] = {
    "key": "name yours with --map key=COLUMN",
    "at": "name yours with --map at=COLUMN",
    "level": None,
}


class Input(NamedTuple):
    """One of the two: where it is, how to read it, and which column is which."""

    what: str  # "operations" or "events"
    path: str
    format: str
    options: dict[str, str]
    columns: dict[str, str]  # ours -> theirs, as far as mapped
    sql: str | None

    @property
    def wanted(self) -> dict[str, str | None]:
        return OPERATIONS if self.what == "operations" else EVENTS

    def places(self, found: Iterable[str], *, given: Iterable[str] = ()) -> dict[str, str]:
        """Ours -> theirs for every column that is there; a Problem if one that must be is not. `given`: not needed."""
        found, given = list(found), list(given)
        if not found:
            raise Problem(f"{self.what}: {self.path} is empty, it has not even a header")
        if len(found) == 1 and (sign := next((sign for sign in SEPARATORS if sign in found[0]), None)):
            raise Problem(f"{self.what}: {self.path} is one column, {found[0]!r}: pass --option sep='{sign}'")
        places = {}
        for ours, advice in self.wanted.items():
            theirs = self.columns.get(ours, ours)
            if theirs in found:
                places[ours] = theirs
            elif ours in self.columns:
                raise Problem(f"{self.what} has no column {theirs!r}; it has {_listed(found)}")
            elif advice is not None and ours not in given:
                raise Problem(f"{self.what} has no column {ours!r} (it has {_listed(found)}): {advice}")
        return places


class Inputs(NamedTuple):
    operations: Input
    events: Input
    within_ms: int | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Inputs:
        columns = dict(args.map)
        for ours in columns:
            if ours not in OPERATIONS and ours not in EVENTS:
                raise Problem(
                    f"--map {ours}=…: there is no column of that name, choose from {_listed([*OPERATIONS, *EVENTS])}"
                )

        def made(what: str, path: str, wanted: dict[str, str | None], sql: str | None) -> Input:
            options = dict(args.option)
            mapped = {ours: theirs for ours, theirs in columns.items() if ours in wanted}
            return Input(what, path, args.format or format_of(path), options, mapped, sql)

        return cls(
            made("operations", args.operations, OPERATIONS, args.operations_sql),
            made("events", args.events, EVENTS, args.events_sql),
            args.within,
        )

    def must_lie_outside(self, out: str) -> None:
        """A Problem if writing `out` would replace an input or go into it."""
        for source in (self.operations, self.events):
            if is_local(out) and is_local(source.path) and source.format != "table":
                place, read = Path(out).resolve(), Path(source.path).resolve()
                if place == read or place in read.parents or read in place.parents:
                    raise Problem(f"{out} and the {source.what} in {source.path} overlap: choose another --out")


def format_of(path: str) -> str:
    """By the ending; for a directory or a pattern, by the ending of the first data file in it."""
    if not is_local(path):
        return _by_ending(path) or "parquet"
    place = Path(path)
    if not place.exists() and (matching := sorted(glob(path))):
        place = Path(matching[0])
    if not place.exists():
        raise Problem(f"{path} does not exist: check the path, or pass --format table if it is a table of Spark's")
    if place.is_dir():
        file = files_of(str(place))[0]
        return _by_ending(file.name) or _unknown(str(file))
    return _by_ending(place.name) or _unknown(path)


def files_of(path: str) -> list[Path]:
    """A file, those of a directory, or those of a pattern. What begins with a dot or an underscore is not data."""
    place = Path(path)
    found = [place] if place.is_file() else []
    for one in [place] if place.is_dir() else [Path(match) for match in sorted(glob(path))] if not found else []:
        below = sorted(one.rglob("*")) if one.is_dir() else [one]
        names = [(file, file.relative_to(one).parts or (one.name,)) for file in below if file.is_file()]
        found += [file for file, parts in names if not any(part[0] in "._" for part in parts)]
    if not found:
        raise Problem(f"{path} holds no data files: check the path")
    return found


def _by_ending(name: str) -> str | None:
    return next((format for format, endings in FORMATS.items() if name.lower().endswith(endings)), None)


def _unknown(path: str) -> str:
    raise Problem(f"{path} does not say its format by its name: pass --format parquet, csv or json")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
