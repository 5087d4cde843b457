"""What a shard keeps between micro-batches, so that one costs what came and what is due, not what is there.

Rows that the watermark has not passed lie in slices of time; one is read when its time has come. Rows that it has
passed are written to the end of a log. When that is long it is folded: what is over is dropped, and what stays goes to
parts. A part holds what is known of some keys or operations, those whose hash ends like its number, a few thousand
rows. An index says which hashes there are: what is new, and over before it is old, touches no part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dwell.errors import InvalidArgument
from dwell.spark.stream.table import ints, joined, shares, where
from dwell.spark.stream.timeline import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from dwell.spark.stream.store import Header, Store, Tables
    from dwell.spark.stream.table import Ints, Mask

# Of all that is written here; raised when an older version could not read it.
FORMAT = 3

# Rows a log may hold whatever the size of the parts: below this a fold costs more than reading the log.
SHORT_LOG = 4096

# A part holds at most so many rows when its number is chosen, and at least half of it.
PART_ROWS = 8192

# Fewer rows than this are no slice of their own.
SLICE_ROWS = 1024

# Entries of a log before they are made one: many small ones cost more to read than their rows.
LOG_ENTRIES = 16


class Times(NamedTuple):
    """For each of some rows its hash, and when something is to happen to it."""

    cells: Ints
    at: Ints


class Journal(ABC):
    """The rows of a shard, for one micro-batch that has something to do up to `until`."""

    def __init__(self, store: Store, until: int) -> None:
        self._store, self._until = store, until
        noted = store.directory() or {
            "parts": [[0, int(NEVER), int(NEVER), 0]],
            "slices": [],
            "serial": 0,
            "logged": 0,
            "log_wake": int(NEVER),
            "entries": 0,
            "spent": 0,
            "pace": 0,
            "lasts": self.lasts,
        }
        # Of each part: its rows, when one is due, and when how many are of no more use.
        self._rows, self._wake, self._over, self._leaving = np.array(noted["parts"], np.int64).T.copy()
        self._slices: list[tuple[int, int, int]] = noted["slices"]
        self._serial: int = noted["serial"]
        self._logged: int = noted["logged"]
        self._log_wake: int = noted["log_wake"]
        self._entries: int = noted["entries"]
        self._spent: int = noted["spent"]
        self._pace: int = noted["pace"]
        # `over` is on record as other terms had it.
        self._outdated = noted["lasts"] != self.lasts
        self._log: Tables | None = None

    @property
    @abstractmethod
    def lasts(self) -> list[int | None]:
        """How long rows are kept when they are over."""

    @abstractmethod
    def cells(self, table: pa.RecordBatch) -> Ints:
        """The hash by which each row belongs to a part."""

    @abstractmethod
    def fold(self, known: Tables, log: Tables) -> Tables:
        """What is known of these parts with the log."""

    @abstractmethod
    def came(self, known: Tables) -> Times:
        """When something began to wait."""

    @abstractmethod
    def due(self, tables: Tables) -> Times:
        """When rows have to be looked at again."""

    @abstractmethod
    def over(self, known: Tables) -> Times:
        """When rows are of no more use, though nothing comes."""

    def close(self) -> None:
        self._store.keep_directory(
            {
                "parts": np.stack([self._rows, self._wake, self._over, self._leaving], axis=1).tolist(),
                "slices": self._slices,
                "serial": self._serial,
                "logged": self._logged,
                "log_wake": self._log_wake,
                "entries": self._entries,
                "spent": self._spent,
                "pace": self._pace,
                "lasts": None if self._outdated else self.lasts,
            }
        )

    @property
    def next(self) -> int:
        """Nothing is due before the watermark passes this."""
        return min([self._log_wake, int(self._wake.min()), int(self._over.min()), *(one[2] for one in self._slices)])

    @property
    def put_off(self) -> int:
        """How many rows are in slices."""
        return sum(rows for _, rows, _ in self._slices)

    def ripe(self, arrived: Tables) -> Tables:
        """Of these rows and of those put off, the ones before `until`. The others are put off."""
        taken = [one for one in self._slices if one[2] < self._until]
        rows = self._gathered([arrived, *(self._store.slice(number) for number, _, _ in taken)])
        times = self._times(rows)
        ripe = {name: where(table, times[name] < self._until) for name, table in rows.items()}
        rest = {name: where(table, times[name] >= self._until) for name, table in rows.items()}
        self._slices = [one for one in self._slices if one[2] >= self._until]
        if _count(rest):
            small = [one for one in self._slices if one[1] < SLICE_ROWS]
            rest = self._gathered([rest, *(self._store.slice(number) for number, _, _ in small)])
            self._slices = [one for one in self._slices if one[1] >= SLICE_ROWS]
            taken += small
        for number, _, _ in taken:
            self._store.drop_slice(number)
        for tables, wake in self._sliced(rest):
            self._store.keep_slice(self._serial, tables)
            self._slices.append((self._serial, _count(tables), wake))
            self._serial += 1
        return ripe

    def log(self) -> Tables:
        """The rows that the watermark has passed since the last fold."""
        if self._log is None:
            self._log = self._store.log()
        return self._log

    def known(self, asked: list[pa.RecordBatch]) -> Tables:
        """What parts know of all that these rows are about, and what lies in parts where something is due."""
        wanted = self._home(asked)
        # An entry of the index is a small part of a row: it is worth reading before many rows are.
        if self._rows[wanted].sum() > max(PART_ROWS, self._rows.sum() // 16):
            wanted = self._met_by(asked, self._store.index())
        wanted |= self._wake < self._until
        known = self._read(wanted)
        self._wake[wanted] = self._first_due(known, len(wanted))[wanted]
        return known

    def spend(self, rows: int) -> None:
        """So many rows more in parts are of no more use, or will be earlier than was thought."""
        self._spent += rows

    def keep(self, rows: Tables) -> None:
        """Log these rows, and fold the log if it is time to."""
        new = _count(rows)
        self._logged += new
        lapsed = self._over < self._until
        self._spent += int(self._leaving[lapsed].sum())
        self._over[lapsed] = NEVER
        half = int(self._rows.sum()) // 2
        # A fold may rewrite many parts, so it waits for a log of that size, or some times what comes: no longer.
        self._pace = max(new, self._pace * 3 // 4)
        limit = max(SHORT_LOG, min(half, 16 * self._pace))
        everything = self._spent > max(SHORT_LOG, half) or half > PART_ROWS * len(self._rows) or self._outdated
        if everything or self._logged > limit:
            self._fold_log(_and_then(self.log(), rows), limit // 2, everything=everything)
            return
        if self._log_wake < self._until:
            self._log_wake = int(self._first_due(self.log(), 1)[0])
        self._log_wake = min(self._log_wake, int(self._first_due(rows, 1)[0]))
        if new and self._entries < LOG_ENTRIES:
            self._store.append(rows)
            self._entries += 1
        elif new:
            self._store.rewrite_log(_and_then(self.log(), rows))
            self._entries = 1

    def _fold_log(self, log: Tables, few: int, *, everything: bool) -> None:
        """What is over is dropped, what parts know of goes to them, and of the rest a few rows stay in the log."""
        index = self._store.index()
        wanted = self._met_by(log.values(), index) | everything
        known = self.fold(self._read(wanted), log)
        staying = self._staying(known, index, few)
        home = self._home(where(table, ~self._are_in(table, staying)) for table in known.values())
        if self._rows[home & ~wanted].any():
            known = self.fold(self._read(wanted | home), log)
        wanted |= home
        rest = {name: where(table, self._are_in(table, staying)) for name, table in known.items()}
        if wanted.any():
            going = {name: where(table, ~self._are_in(table, staying)) for name, table in known.items()}
            self._keep_parts(going, wanted, index)
        self._store.rewrite_log(rest)
        self._logged, self._entries = _count(rest), 1
        self._log_wake = int(self._first_due(rest, 1)[0])

    def _staying(self, known: Tables, index: Ints, few: int) -> Ints:
        """Of what parts do not know, what stays in the log: all, if it is but a few rows, else the youngest.

        What is young is soon heard of again. By hash, in order.
        """
        new = np.concatenate([cells[~_is_in(cells, index)] for cells in map(self.cells, known.values())])
        if len(new) <= few:
            return np.sort(new)
        came, some = self.came(known), max(few // 4, 0)
        unknown = ~_is_in(came.cells, index)
        cells, at = came.cells[unknown], came.at[unknown]
        young = np.sort(cells[at > np.sort(at)[max(len(at) - 1 - some, 0)]]) if len(at) else cells
        # Each may be several rows.
        return young if np.count_nonzero(_is_in(new, young)) <= few else young[:0]

    def _keep_parts(self, known: Tables, taken: Mask, index: Ints) -> None:
        """In place of what was taken. If that is all, there may be more parts than before, or fewer."""
        index = index[~taken[index & (len(taken) - 1)]]
        before = np.flatnonzero(taken & (self._rows > 0)).tolist()
        if taken.all():
            self._spent, self._outdated = 0, False
            taken = np.ones(_parts_for(_count(known)), np.bool_)
            self._rows, self._wake, self._over, self._leaving = np.zeros((4, len(taken)), np.int64)
        self._rows[taken] = 0
        self._wake[taken] = self._first_due(known, len(taken))[taken]
        self._over[taken], self._leaving[taken] = (one[taken] for one in self._mostly_over(known, len(taken)))
        for number, tables in self._cut(known, len(taken)):
            self._store.keep_part(number, tables)
            self._rows[number] = _count(tables)
        for number in before:
            if number >= len(taken) or not self._rows[number]:
                self._store.drop_part(number)
        index = np.sort(np.concatenate([index, *map(self.cells, known.values())]))
        self._store.keep_index(index[np.append(True, index[1:] != index[:-1])[: len(index)]])

    def _first_due(self, tables: Tables, parts: int) -> Ints:
        """For each of so many parts."""
        due, first = self.due(tables), np.full(parts, NEVER)
        coming = due.at >= self._until
        np.minimum.at(first, due.cells[coming] & (parts - 1), due.at[coming])
        return first

    def _mostly_over(self, known: Tables, parts: int) -> tuple[Ints, Ints]:
        """For each of so many parts when three in four of the rows that will be over are, and how many that is."""
        over = self.over(known)
        part, first = over.cells & (parts - 1), np.full(parts, NEVER)
        order = np.lexsort((over.at, part))
        bounds = np.searchsorted(part[order], np.arange(parts + 1))
        count = np.diff(bounds)
        some, leaving = count > 0, count - count // 4
        first[some] = over.at[order][(bounds[:-1] + leaving - 1)[some]]
        return first, leaving

    def _home(self, tables: Iterable[pa.RecordBatch]) -> Mask:
        """In which parts these rows are at home."""
        return self._home_of(np.concatenate([self.cells(table) for table in tables]))

    def _home_of(self, cells: Ints) -> Mask:
        home = np.zeros(len(self._rows), np.bool_)
        home[cells & (len(home) - 1)] = True
        return home

    def _met_by(self, tables: Iterable[pa.RecordBatch], index: Ints) -> Mask:
        """Which parts know of what these rows are about."""
        cells = np.concatenate([self.cells(table) for table in tables])
        return self._home_of(cells[_is_in(cells, index)])

    def _are_in(self, table: pa.RecordBatch, ordered: Ints) -> Mask:
        return _is_in(self.cells(table), ordered)

    def _read(self, wanted: Mask) -> Tables:
        there = self._rows > 0
        found = self._store.parts(np.flatnonzero(wanted & there).tolist(), int(there.sum()))
        schemas = self._store.layout.parts
        return {name: joined([tables[name] for tables in found], schema) for name, schema in schemas.items()}

    def _cut(self, known: Tables, parts: int) -> Iterator[tuple[int, Tables]]:
        cut: dict[int, Tables] = {}
        for name, table in known.items():
            for number, share in shares(table, self.cells(table) & (parts - 1), parts):
                cut.setdefault(number, {name: table.slice(0, 0) for name, table in known.items()})[name] = share
        yield from cut.items()

    def _gathered(self, parts: list[Tables]) -> Tables:
        schemas = self._store.layout.slices
        return {name: joined([tables[name] for tables in parts], schema) for name, schema in schemas.items()}

    def _times(self, rows: Tables) -> dict[str, Ints]:
        return {name: ints(table, self._store.layout.times[name]) for name, table in rows.items()}

    def _sliced(self, rows: Tables) -> Iterator[tuple[Tables, int]]:
        """The later half, then the later half of the rest: the nearer its time, the smaller a slice. And their first
        times."""
        times = self._times(rows)
        ordered = np.sort(np.concatenate(list(times.values())))
        end = len(ordered)
        while end:
            start = int(np.searchsorted(ordered, ordered[end // 2])) if end >= 2 * SLICE_ROWS else 0
            first, last = ordered[start], ordered[end - 1]
            yield (
                {name: where(table, (times[name] >= first) & (times[name] <= last)) for name, table in rows.items()},
                int(first),
            )
            end = start


def opened(header: Header | None, shards: int, new: Header) -> Header:
    """The header to go on with, or an error before any harm if the checkpoint was written under other terms."""
    if header is None:
        return {"format": FORMAT, "shards": shards, "next": int(NEVER), **new}
    check_format(header)
    if header["shards"] != shards:
        raise InvalidArgument(
            f"shards is {shards}, but the checkpoint was started with {header['shards']}: "
            "it cannot change over a checkpoint"
        )
    return header


def check_format(header: Header) -> None:
    if header["format"] != FORMAT:
        raise InvalidArgument(
            f"the checkpoint has state of format {header['format']}, this version of dwell writes format {FORMAT}: "
            "go on with the version that wrote it, or start with a new checkpoint"
        )


def _and_then(log: Tables, rows: Tables) -> Tables:
    return {name: joined([table, rows[name]], table.schema) if name in rows else table for name, table in log.items()}


def _count(tables: Tables) -> int:
    return sum(table.num_rows for table in tables.values())


def _is_in(values: Ints, ordered: Ints) -> Mask:
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return ordered[place] == values if len(ordered) else np.zeros(len(values), np.bool_)


def _parts_for(rows: int) -> int:
    """A power of two."""
    return 1 << max(0, (rows - 1) // PART_ROWS).bit_length()
