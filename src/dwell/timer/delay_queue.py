"""The buckets that hold tasks, the next to expire first."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import final

from dwell.timer.bucket import TimerTaskList


@final
class DelayQueue:
    """A heap of buckets, each in it at most once. It does not wait: time is an argument."""

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[TimerTaskList] = []

    def put(self, bucket: TimerTaskList) -> None:
        heappush(self.heap, bucket)

    def poll(self, now_ms: int) -> TimerTaskList | None:
        """Take the first bucket that has expired at `now_ms`, if there is one."""
        if self.heap and self.heap[0].expiration_ms <= now_ms:
            return heappop(self.heap)
        return None

    def next_expiration_ms(self) -> int | None:
        return self.heap[0].expiration_ms if self.heap else None
