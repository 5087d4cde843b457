"""What a purgatory does, as plainly as it can be said: dictionaries, lists and one thread."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class ModelOperation:
    then: tuple[str, int] | None
    ready: bool = False
    completed: bool = False
    watching: bool = False
    cancelled: bool = False
    deadline_ms: int | None = None


@dataclass
class PurgatoryModel:
    """Keys and operations are numbers. `log` has the callbacks in the order they run."""

    purge_interval: int
    now_ms: int = 0
    operations: dict[int, ModelOperation] = field(default_factory=dict)
    # Who was put on a key's list, also those that are completed and not yet cleared away.
    lists: dict[int, list[int]] = field(default_factory=dict)
    log: list[tuple[str, int]] = field(default_factory=list)
    completed: int = 0
    expired: int = 0
    cancelled: int = 0
    purged: int = 0
    estimate: int = 0
    _in_callback: bool = False
    _draining: bool = False
    _queue: deque[tuple[str, int, bool]] = field(default_factory=deque)

    @property
    def watched(self) -> int:
        return sum(map(len, self.lists.values()))

    @property
    def delayed(self) -> int:
        return sum(operation.deadline_ms is not None for operation in self.operations.values())

    def waits(self, number: int) -> bool:
        operation = self.operations[number]
        return operation.watching and not operation.completed

    def watch(self, number: int, operation: ModelOperation, keys: list[int], delay_ms: int) -> bool:
        self.operations[number] = operation
        if operation.ready:
            return self.complete(number)
        operation.watching = True
        self.estimate += 1
        for key in dict.fromkeys(keys):
            self.lists.setdefault(key, []).append(number)
        if delay_ms <= 0:
            self.complete(number, expired=True)
        else:
            operation.deadline_ms = self.now_ms + delay_ms
        return False

    def complete(self, number: int, *, expired: bool = False) -> bool:
        operation = self.operations[number]
        if operation.completed:
            return False
        operation.completed = True
        operation.deadline_ms = None
        if expired:
            self.expired += 1
        else:
            self.completed += 1
        if self._in_callback:
            self._queue.append(("finish", number, expired))
        else:
            self._finish(number, expired)
        return True

    def check(self, key: int) -> int:
        completed = 0
        self._clear(key)
        for number in list(self.lists.get(key, ())):
            operation = self.operations[number]
            if operation.ready and self.waits(number):
                completed += self.complete(number)
        self._clear(key)
        return completed

    def cancel_for_key(self, key: int) -> list[int]:
        taken = [number for number in self.lists.pop(key, []) if self.waits(number)]
        for number in taken:
            self._cancelled_one(self.operations[number])
        return taken

    def cancel(self, number: int) -> bool:
        if not self.waits(number):
            return False
        self.operations[number].watching = False
        self._cancelled_one(self.operations[number])
        return True

    def _cancelled_one(self, operation: ModelOperation) -> None:
        operation.deadline_ms = None
        self.cancelled += not operation.cancelled
        operation.cancelled = True

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        due = sorted(
            (operation.deadline_ms, number)
            for number, operation in self.operations.items()
            if operation.deadline_ms is not None and operation.deadline_ms <= self.now_ms
        )
        for _, number in due:
            self.operations[number].deadline_ms = None
        for _, number in due:
            self.complete(number, expired=True)
        if self.estimate - self.delayed > self.purge_interval:
            self.purge()

    def purge(self) -> int:
        before = self.watched
        self.estimate = self.delayed
        for key in list(self.lists):
            self._clear(key)
        self.purged += before - self.watched
        return before - self.watched

    def _clear(self, key: int) -> None:
        left = [number for number in self.lists.pop(key, []) if self.waits(number)]
        if left:
            self.lists[key] = left

    def _finish(self, number: int, expired: bool) -> None:
        """The callbacks of one operation. What they set off waits until they have returned."""
        self._in_callback = True
        self.log.append(("complete", number))
        then = self.operations[number].then
        if then is not None and then[0] == "check":
            self._queue.append(("check", then[1], False))
        elif then is not None and then[1] in self.operations:
            self.complete(then[1])
        if expired:
            self.log.append(("expire", number))
        self._in_callback = False
        if not self._draining:
            self._draining = True
            while self._queue:
                what, which, is_expired = self._queue.popleft()
                self.check(which) if what == "check" else self._finish(which, is_expired)
            self._draining = False
