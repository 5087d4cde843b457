"""The operations that watch one key, and the shard of the map from keys to such lists."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from dwell.purgatory.operation import DelayedOperation

# A purge lets go of the lock after so many places: a list of 340,000 must not stop completions for its whole length.
PURGE_CHUNK = 4096


@final
class Watch:
    """What the lists of all keys of one operation hold in its stead.

    Completing the operation empties it, O(1) however many keys there are: from then on no list keeps the operation
    alive. The empty watch stays, and counts as watched, until its list is walked or purged.
    """

    __slots__ = ("operation",)

    def __init__(self, operation: DelayedOperation) -> None:
        self.operation: DelayedOperation | None = operation


@final
class WatcherList:
    """The watches of one key in the order they came. The shard's lock guards it."""

    __slots__ = ("key", "version", "watches")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        # None is a hole that a purge under way has left.
        self.watches: list[Watch | None] = []
        # Counts who began to pack the list, so that a purge notices that the places are no longer its own.
        self.version = 0

    def pack(self) -> int:
        """Drop the watches of completed operations; returns how many there were."""
        before = len(self)
        self.watches = [watch for watch in self.watches if watch is not None and watch.operation is not None]
        self.version += 1
        return before - len(self.watches)

    def operations(self) -> list[DelayedOperation]:
        found = (watch.operation for watch in self.watches if watch is not None)
        return [operation for operation in found if operation is not None]

    def __len__(self) -> int:
        return sum(watch is not None for watch in self.watches)


@final
class Shard:
    """A part of the map: a lock, and the lists of the keys that hash to it.

    No callback of an operation runs under the lock. The `__eq__` and `__hash__` of keys do, and they may be anybody's
    code: so the lock is re-entrant, and every look into the map allows for a change during the last comparison.
    """

    __slots__ = ("_lists", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lists: dict[Hashable, WatcherList] = {}

    def watch(self, key: Hashable, watch: Watch) -> None:
        with self._lock:
            watchers = self._lists.get(key)
            if watchers is None:
                watchers = self._lists.setdefault(key, WatcherList(key))
            watchers.watches.append(watch)

    def find(self, key: Hashable) -> tuple[WatcherList, list[DelayedOperation]] | None:
        """The key's list, packed, and who waits on it now; None if nobody watches the key."""
        with self._lock:
            watchers = self._lists.get(key)
            if watchers is None:
                return None
            watchers.pack()
            return watchers, watchers.operations()

    def tidy(self, watchers: WatcherList) -> None:
        """Pack a list that was walked, and remove its key if nobody is left."""
        with self._lock:
            watchers.pack()
            self._remove_if_empty(watchers)

    def take(self, key: Hashable) -> list[DelayedOperation]:
        """Take the key's list away; returns who waited on it."""
        with self._lock:
            watchers = self._lists.pop(key, None)
            return [] if watchers is None else watchers.operations()

    def take_all(self) -> list[DelayedOperation]:
        with self._lock:
            lists, self._lists = self._lists, {}
            return [operation for watchers in lists.values() for operation in watchers.operations()]

    def operations(self) -> list[DelayedOperation]:
        with self._lock:
            return [operation for watchers in self._lists.values() for operation in watchers.operations()]

    def purge(self) -> int:
        """Drop the watches of completed operations and the keys nobody watches, a chunk at a time."""
        with self._lock:
            lists = list(self._lists.values())
        return sum(self._purge_list(watchers) for watchers in lists)

    def _purge_list(self, watchers: WatcherList) -> int:
        """Move the living to the front, leaving holes behind that walkers pass over, until the end is reached."""
        purged = kept = start = 0
        with self._lock:
            version = watchers.version = watchers.version + 1
        while True:
            with self._lock:
                if watchers.version != version:
                    return purged  # somebody else packs it
                watches = watchers.watches
                end = min(start + PURGE_CHUNK, len(watches))
                for place in range(start, end):
                    watch, watches[place] = watches[place], None
                    if watch is None:
                        continue
                    if watch.operation is None:
                        purged += 1
                    else:
                        watches[kept] = watch
                        kept += 1
                start = end
                if end == len(watches):
                    del watches[kept:]
                    self._remove_if_empty(watchers)
                    return purged

    def _remove_if_empty(self, watchers: WatcherList) -> None:
        # The list may have been taken away and another put in its place; only this one, and only if empty, may go.
        if not watchers.watches and self._lists.get(watchers.key) is watchers:
            del self._lists[watchers.key]

    def __len__(self) -> int:
        with self._lock:
            return sum(len(watchers) for watchers in self._lists.values())

    def __iter__(self) -> Iterator[WatcherList]:
        with self._lock:
            return iter(list(self._lists.values()))
