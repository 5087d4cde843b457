"""The peer: a purgatory as one would write it in an afternoon. A dictionary of sets, `heapq` for deadlines, one lock.

It completes each operation once and lets it expire, and that is all: no order among watchers, no isolation of errors,
cancelled deadlines stay in the heap until they are due.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Hashable, Sequence
from itertools import count


class PlainOperation:
    __slots__ = ("completed", "delay_ms", "keys", "lock")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.keys: Sequence[Hashable] = ()
        self.completed = False
        self.lock = threading.RLock()

    def try_complete(self) -> bool:
        raise NotImplementedError

    def on_complete(self) -> None: ...

    def on_expiration(self) -> None: ...

    def force_complete(self) -> bool:
        with self.lock:
            if self.completed:
                return False
            self.completed = True
            self.on_complete()
            return True


class PlainPurgatory:
    def __init__(self) -> None:
        self._watchers: dict[Hashable, set[PlainOperation]] = {}
        self._deadlines: list[tuple[float, int, PlainOperation]] = []
        self._numbers = count()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._reaper = threading.Thread(target=self._reap, daemon=True)
        self._reaper.start()

    def try_complete_else_watch(self, operation: PlainOperation, keys: Sequence[Hashable]) -> bool:
        with operation.lock:
            if operation.try_complete():
                return True
            operation.keys = keys
            with self._lock:
                for key in keys:
                    self._watchers.setdefault(key, set()).add(operation)
            if operation.try_complete():
                self.forget(operation)
                return True
        deadline = time.monotonic() + operation.delay_ms / 1000
        with self._lock:
            heapq.heappush(self._deadlines, (deadline, next(self._numbers), operation))
        return False

    def check_and_complete(self, key: Hashable) -> int:
        with self._lock:
            waiting = list(self._watchers.get(key, ()))
        completed = 0
        for operation in waiting:
            with operation.lock:
                if not operation.completed and operation.try_complete():
                    completed += 1
                    self.forget(operation)
        return completed

    def forget(self, operation: PlainOperation) -> None:
        with self._lock:
            for key in operation.keys:
                watchers = self._watchers.get(key)
                if watchers is not None:
                    watchers.discard(operation)
                    if not watchers:
                        del self._watchers[key]

    def close(self) -> None:
        self._closed.set()
        self._reaper.join()

    def _reap(self) -> None:
        while not self._closed.wait(0.001):
            now = time.monotonic()
            due = []
            with self._lock:
                while self._deadlines and self._deadlines[0][0] <= now:
                    due.append(heapq.heappop(self._deadlines)[2])
            for operation in due:
                if operation.force_complete():
                    operation.on_expiration()
                    self.forget(operation)
