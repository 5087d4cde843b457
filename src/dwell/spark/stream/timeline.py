"""The events of some keys in order of time, and what they say of needs.

All rows stand in one array sorted by (key, time). Levels are replaced by their rank, keys by a code, and
`code * width + rank` puts both into one integer. Its running maximum is the level of each key at each event, starts
anew with each key by itself, and is sorted: the first event at which a key reaches a level is one binary search.

    key     a  a  a  a     b  b
    at      1  3  5  9     2  4
    level   4  2  7  -     5  6
    peak   a4 a4 a7 a7    b5 b6       a reaches 5 at the first peak >= a5, which is at 5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.spark.stream.table import ints, present

if TYPE_CHECKING:
    from dwell.spark.stream.table import Ints, Mask

NEVER = np.int64(2**62)


class Timeline:
    """`keys` are the levels to start from, `events` what came later."""

    def __init__(self, keys: pa.RecordBatch, events: pa.RecordBatch) -> None:
        names = pa.concat_arrays([keys.column("key"), events.column("key")]).dictionary_encode()
        self._names = names.dictionary
        code = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        at = np.concatenate([ints(keys, "rose"), ints(events, "at")])
        level = np.concatenate([ints(keys, "level"), ints(events, "level")])
        has = np.concatenate([np.ones(keys.num_rows, np.bool_), present(events, "level")])
        order = np.lexsort((at, code))
        self.code, self.at = code[order], at[order]
        level, has = level[order], has[order]
        self.levels = np.unique(level[has])
        self._width = len(self.levels) + 1
        rank = np.where(has, np.searchsorted(self.levels, level) + 1, 0)
        self._peak = np.maximum.accumulate(self.code * self._width + rank)
        self._instants = np.unique(self.at)
        self._moment = self._moments(self.code, self.at)
        # Where the level of a key is greater than before, or its first.
        before = np.concatenate([[-1], self._peak[:-1]])
        before = np.maximum(before, self.code * self._width)
        self.rises = np.flatnonzero(self._peak > before)

    @property
    def size(self) -> int:
        """How many keys there are; codes are below it."""
        return len(self._names)

    def names(self, code: Ints) -> pa.Array:
        return self._names.take(pa.array(code))

    def codes(self, keys: pa.Array) -> Ints:
        """The code of each key, or -1 if nothing is known of it."""
        found = pc.fill_null(pc.index_in(keys, value_set=self._names), -1)
        return found.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]

    def reached(self, code: Ints, level: Ints) -> Ints:
        """When each key first reached the level, or NEVER."""
        rank = np.searchsorted(self.levels, level) + 1
        possible = (code >= 0) & (rank < self._width)
        return self._time(np.searchsorted(self._peak, code * self._width + rank), code, possible)

    def heard(self, code: Ints, since: Ints) -> Ints:
        """When the first event of each key at or after a time came, or NEVER."""
        return self._time(np.searchsorted(self._moment, self._moments(code, since)), code, code >= 0)

    def risen(self, code: Ints, after: Ints) -> Ints:
        """The place in `rises` of each key's first rise after a time; the one before is its level at that time."""
        moment = self._moment[self.rises]
        return np.searchsorted(moment, self._moments(code, after + 1))

    def level_at(self, row: Ints) -> Ints:
        """The level of the key at these rows of the timeline, which must have one."""
        levels: Ints = self.levels[self._peak[row] % self._width - 1]
        return levels

    def _moments(self, code: Ints, at: Ints) -> Ints:
        return code * (len(self._instants) + 1) + np.searchsorted(self._instants, at)

    def _time(self, row: Ints, code: Ints, possible: Mask) -> Ints:
        if not len(self.at):
            return np.full(len(code), NEVER)
        there = np.minimum(row, len(self.at) - 1)
        found = possible & (row < len(self.at)) & (self.code[there] == code)
        return np.where(found, self.at[there], NEVER)
