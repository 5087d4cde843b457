"""A bucket: the tasks that come due in one stretch of time, as a doubly linked ring."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from dwell.timer.task import TimerTask
    from dwell.timer.wheels import Wheels

# Guards the buckets, queues and counters of all timers, and where each task waits. One lock for all timers, because a
# task can be moved from one timer to another, by several threads at once. No user code runs while it is held.
LOCK = Lock()

# The expiration of a bucket outside the delay queue: before the start of every bucket of 64-bit times.
NOT_QUEUED = -(2**128)


@final
class TimerTaskEntry:
    """A task's place in a bucket. An added task has one entry; moving it to another bucket keeps the entry."""

    __slots__ = ("deadline_ms", "expiration_ms", "next", "prev", "task", "task_list", "wheels")

    def __init__(
        self,
        task: TimerTask | None,
        expiration_ms: int,
        deadline_ms: int | None = None,
        wheels: Wheels | None = None,
    ) -> None:
        self.task = task
        # The deadline as asked for, and rounded up to the timer's tick: a task never runs early.
        self.deadline_ms = expiration_ms if deadline_ms is None else deadline_ms
        self.expiration_ms = expiration_ms
        # The timer whose bucket it is in; None for a wheel that is driven by hand.
        self.wheels = wheels
        self.task_list: TimerTaskList | None = None
        # The neighbours in the ring; unset while the entry is in no bucket, so that nothing keeps it alive.
        self.prev: TimerTaskEntry
        self.next: TimerTaskEntry


@final
class TimerTaskList:
    """A ring with a root that is no task: `add` and `remove` touch two neighbours, whatever the length."""

    __slots__ = ("expiration_ms", "root")

    def __init__(self) -> None:
        self.root = root = TimerTaskEntry(None, NOT_QUEUED)
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

    def remove(self, entry: TimerTaskEntry) -> None:
        """Unlink, O(1)."""
        entry.prev.next, entry.next.prev = entry.next, entry.prev
        del entry.prev, entry.next
        entry.task_list = None

    def flush(self) -> list[TimerTaskEntry]:
        """Empty the bucket; returns its entries in insertion order. The bucket may then be queued anew."""
        entries = list(self)
        for entry in entries:
            self.remove(entry)
        self.expiration_ms = NOT_QUEUED
        return entries

    def __iter__(self) -> Iterator[TimerTaskEntry]:
        entry = self.root.next
        while entry is not self.root:
            yield entry
            entry = entry.next

    def __lt__(self, other: TimerTaskList) -> bool:
        return self.expiration_ms < other.expiration_ms
