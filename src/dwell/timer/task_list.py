"""A bucket: the tasks that come due in one stretch of time, as a doubly linked ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import RLock
from typing import final

from dwell.timer.task import TimerTask

# The expiration of a bucket outside the delay queue: before the start of every bucket of 64-bit times.
NOT_QUEUED = -(2**128)


# One lock for all timers of this build: a task may be moved from one timer to another, by several threads at once, and
# then no lock of one timer alone says where it is. No user code runs while it is held.
LOCK = RLock()


@final
class TaskCounter:
    """What all the buckets of one timer share: the lock, and how many tasks it holds."""

    __slots__ = ("cancelled", "lock", "value")

    def __init__(self) -> None:
        self.lock = LOCK
        self.value = 0
        self.cancelled = 0


@final
class TimerTaskEntry:
    """A task's place in a bucket. An added task has one entry; moving it to another bucket keeps the entry."""

    __slots__ = ("counter", "deadline_ms", "expiration_ms", "next", "prev", "task", "task_list")

    def __init__(
        self, task: TimerTask | None, expiration_ms: int, counter: TaskCounter, deadline_ms: int | None = None
    ) -> None:
        self.task = task
        # The deadline as asked for, and rounded up to the timer's tick: a task never runs early.
        self.deadline_ms = expiration_ms if deadline_ms is None else deadline_ms
        self.expiration_ms = expiration_ms
        self.counter = counter
        self.task_list: TimerTaskList | None = None
        # The neighbours in the ring; unset while the entry is in no bucket, so that nothing keeps it alive.
        self.prev: TimerTaskEntry
        self.next: TimerTaskEntry

    def remove(self) -> bool:
        """Take the entry out of whatever bucket it is in; False if it is in none."""
        # The lock first: during a cascade the entry is between two buckets, and only the lock's holder sees that.
        with self.counter.lock:
            if self.task_list is None:
                return False
            self.task_list.remove(self)
            if self.task is not None:
                self.task._entry = None
            return True

    def cancel(self) -> bool:
        with self.counter.lock:
            removed = self.remove()
            self.counter.cancelled += removed
            return removed


@final
class TimerTaskList:
    """A ring with a root that is no task: `add` and `remove` touch two neighbours, whatever the length."""

    __slots__ = ("counter", "expiration_ms", "root")

    def __init__(self, counter: TaskCounter) -> None:
        self.counter = counter
        self.root = root = TimerTaskEntry(None, NOT_QUEUED, counter)
        root.prev = root.next = root
        self.expiration_ms = NOT_QUEUED

    def set_expiration(self, expiration_ms: int) -> bool:
        """True if this changed it: then, and only then, the bucket has to be put into the delay queue."""
        changed = self.expiration_ms != expiration_ms
        self.expiration_ms = expiration_ms
        return changed

    def add(self, entry: TimerTaskEntry) -> None:
        """Append, O(1)."""
        tail = self.root.prev
        entry.prev, entry.next, entry.task_list = tail, self.root, self
        tail.next = self.root.prev = entry
        self.counter.value += 1

    def remove(self, entry: TimerTaskEntry) -> None:
        """Unlink, O(1)."""
        entry.prev.next, entry.next.prev = entry.next, entry.prev
        del entry.prev, entry.next
        entry.task_list = None
        self.counter.value -= 1

    def flush(self, visit: Callable[[TimerTaskEntry], None]) -> None:
        """Empty the bucket in insertion order, giving each entry to `visit`. The bucket may then be queued anew."""
        while (entry := self.root.next) is not self.root:
            self.remove(entry)
            visit(entry)
        self.expiration_ms = NOT_QUEUED

    def __iter__(self) -> Iterator[TimerTaskEntry]:
        entry = self.root.next
        while entry is not self.root:
            yield entry
            entry = entry.next

    def __lt__(self, other: TimerTaskList) -> bool:
        return self.expiration_ms < other.expiration_ms
