"""Which operations watch which key."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from dwell.purgatory.operation import DelayedOperation

# A purge gives up the lock after this many watches: a key with 340,000 of them must not stop completions meanwhile.
PURGE_CHUNK = 4096


@final
class Watch:
    """Stands for one operation on the lists of all its keys.

    Completing the operation empties its watch, in O(1) for any number of keys: from then on no list keeps the operation
    alive. The empty watch stays on each list, and counts as watched, until that list is checked or purged.
    """

    __slots__ = ("operation",)

    def __init__(self, operation: DelayedOperation) -> None:
        self.operation: DelayedOperation | None = operation


@final
class WatchMap:
    """From each key to the watches on it, in the order they came. A key without watches is not in the map.

    One lock guards the dictionary and its lists. No callback of an operation runs under it, but the `__hash__` and
    `__eq__` of keys do, and these may be anybody's code. So the lock is re-entrant.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watches: dict[Hashable, list[Watch]] = {}

    def add(self, key: Hashable, watch: Watch) -> None:
        with self._lock:
            # One call, because the key's `__eq__` may add the same key.
            self._watches.setdefault(key, []).append(watch)

    def check(self, key: Hashable) -> list[DelayedOperation]:
        """The operations that wait for `key`. Drops empty watches, and the key if none else is left."""
        with self._lock:
            watches = self._watches.get(key)
            if watches is None:
                return []
            watches[:] = [watch for watch in watches if watch.operation is not None]
            if not watches:
                del self._watches[key]
            return operations_of(watches)

    def take(self, key: Hashable) -> list[DelayedOperation]:
        """Remove `key`; returns the operations that waited for it."""
        with self._lock:
            return operations_of(self._watches.pop(key, []))

    def take_all(self) -> list[DelayedOperation]:
        """Remove every key; returns each operation that waited, once."""
        with self._lock:
            taken, self._watches = self._watches, {}
            return each_once(taken.values())

    def operations(self) -> list[DelayedOperation]:
        """Each operation that waits, once."""
        with self._lock:
            return each_once(self._watches.values())

    def purge(self) -> int:
        """Drop empty watches and keys without watches; returns how many watches were dropped."""
        with self._lock:
            keys = list(self._watches)
        return sum(self._purge_key(key) for key in keys)

    def _purge_key(self, key: Hashable) -> int:
        purged = start = 0
        while True:
            with self._lock:
                watches = self._watches.get(key)
                # Another thread may have shortened the list since the last chunk. What is skipped by that is left for
                # the next purge.
                if not watches or start >= len(watches):
                    if watches is not None and not watches:
                        del self._watches[key]
                    return purged
                chunk = watches[start : start + PURGE_CHUNK]
                living = [watch for watch in chunk if watch.operation is not None]
                watches[start : start + PURGE_CHUNK] = living
                start += len(living)
                purged += len(chunk) - len(living)

    def __len__(self) -> int:
        """How many watches all lists hold, including empty ones. O(keys)."""
        with self._lock:
            return sum(map(len, self._watches.values()))

    def _check(self) -> None:
        """Assert every invariant; for tests, while nothing else runs."""
        for watches in self._watches.values():
            for operation in operations_of(watches):
                assert not operation.is_completed, "a list keeps a completed operation alive"
                assert operation._watch in watches, "an operation has another watch than its list"


def operations_of(watches: list[Watch]) -> list[DelayedOperation]:
    operations = (watch.operation for watch in watches)
    return [operation for operation in operations if operation is not None]


def each_once(lists: Iterable[list[Watch]]) -> list[DelayedOperation]:
    # By identity: a subclass may define `__eq__`, and need not have a hash.
    return list({id(operation): operation for watches in lists for operation in operations_of(watches)}.values())
