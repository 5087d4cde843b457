"""What one would write without dwell: waits for levels and signals with `heapq` and dictionaries.

All needs must be met. No quorum, no volume, nothing is validated, nothing is said of repeats, and what is settled stays
in the heaps until it comes up.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from dwell import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dwell import Need


class PlainWait:
    def __init__(self, op_id: str, needs: Sequence[Need], delay: int, now: int) -> None:
        self.op_id = op_id
        self.submitted_at = now
        self.deadline = now + delay
        self.missing = len(needs)
        self.last: tuple[int, str] = (0, "")
        self.done = False


class PlainLedger:
    def __init__(self) -> None:
        self.levels: dict[Any, int] = {}
        self.by_level: dict[Any, list[Any]] = defaultdict(list)
        self.signals: dict[Any, list[PlainWait]] = defaultdict(list)
        self.deadlines: list[Any] = []
        self.count = 0

    def open(self, op_id: str, needs: Sequence[Need], delay: int, now: int) -> PlainWait:
        op = PlainWait(op_id, needs, delay, now)
        self.count += 1
        for key, level in needs:
            if level is None:
                self.signals[key].append(op)
            elif self.levels.get(key, -1) >= level:
                op.missing -= 1
                op.last = max(op.last, (now, key))
            else:
                heapq.heappush(self.by_level[key], (level, self.count, op))
        heapq.heappush(self.deadlines, (op.deadline, self.count, op))
        return op

    def record(self, key: str, level: int | None, now: int) -> list[PlainWait]:
        met = self.signals.pop(key, [])
        if level is not None and level > self.levels.get(key, -1):
            self.levels[key] = level
            heap = self.by_level[key]
            while heap and heap[0][0] <= level:
                met.append(heapq.heappop(heap)[2])
        completed = []
        for op in met:
            if not op.done:
                op.missing -= 1
                op.last = (now, min(key, op.last[1]) if op.last[0] == now else key)
                if op.missing == 0:
                    op.done = True
                    completed.append(op)
        return completed

    def expire(self, before: int) -> Iterator[PlainWait]:
        while self.deadlines and self.deadlines[0][0] < before:
            op = heapq.heappop(self.deadlines)[2]
            if not op.done:
                op.done = True
                yield op


def plain_replay(waits: list[Any], events: list[Any]) -> Iterator[Outcome]:
    waits = sorted(waits, key=lambda wait: wait.submitted_at_ms)
    events = sorted(events, key=lambda event: event.at_ms)
    ledger = PlainLedger()
    position = 0
    for event in events:
        now = event.at_ms
        while position < len(waits) and waits[position].submitted_at_ms <= now:
            op_id, needs, delay, submitted_at, _, _ = waits[position]
            ledger.open(op_id, needs, delay, submitted_at)
            position += 1
        for op in ledger.expire(now):
            yield Outcome(op.op_id, "expired", op.deadline, op.deadline - op.submitted_at, None, None)
        for op in ledger.record(event.key, event.level, now):
            yield Outcome(op.op_id, "completed", now, now - op.submitted_at, op.last[1], None)
    for op in ledger.expire(1 << 62):
        yield Outcome(op.op_id, "expired", op.deadline, op.deadline - op.submitted_at, None, None)
