"""The ledger side by side with what one would write without it.

    python -m benchmarks.bench_ledger [--waits 100000]

- replay: waits of two needs each (a level on a partition, as in Kafka's produce, and an acknowledgement as a signal) and
  twice as many events, against a straightforward program with `heapq` and dictionaries that gives the same outcomes.
- live: opens and records a second of a ledger on a manual clock, against the same program driven live.
- asyncio: coroutines in `await ticket` against coroutines in `asyncio.wait_for(event.wait(), timeout)`.
- bytes per waiting operation, by tracemalloc, tickets included.

Each figure is the best of `--repeats`, both sides in the same process. CPU time, the collector on.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from dwell.ledger import Event, Need, Outcome, Wait, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITIONS = 1_000


def history(waits: int, seed: int = 1) -> tuple[list[Wait], list[Event]]:
    """Rows as a reader of two files sorted by time would make them: one wait and two events a millisecond on average;
    most complete, about a fifth expire.
    """
    rng = random.Random(seed)
    ends = [0] * PARTITIONS
    rows: list[Wait] = []
    happened: list[tuple[int, str, int | None]] = []
    for number, at_ms in enumerate(sorted(rng.randrange(waits) for _ in range(waits))):
        partition = rng.randrange(PARTITIONS)
        ends[partition] += 1
        needs = (Need(f"partition-{partition}", ends[partition]), Need(f"ack-{number}"))
        rows.append(Wait(f"op-{number}", needs, rng.randint(200, 2_000), at_ms))
        happened.append((at_ms + int(rng.lognormvariate(5.3, 1.0)), f"partition-{partition}", ends[partition]))
        happened.append((at_ms + int(rng.lognormvariate(5.3, 1.0)), f"ack-{number}", None))
    happened.sort(key=lambda event: event[0])
    return rows, [Event(key.swapcase().swapcase(), at_ms, level) for at_ms, key, level in happened]


# -- the program one would write


class PlainWait:
    def __init__(self, wait: Wait) -> None:
        self.op_id = wait.op_id
        self.submitted_at = wait.submitted_at_ms or 0
        self.deadline = self.submitted_at + (wait.delay_ms or 0)
        self.missing = len(wait.needs or ())
        self.last: tuple[int, str] = (0, "")
        self.done = False


class PlainLedger:
    """All needs must be met; no quorum, no volume, no validation, no rule on repeats."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self.by_level: dict[str, list[Any]] = defaultdict(list)
        self.signals: dict[str, list[PlainWait]] = defaultdict(list)
        self.deadlines: list[Any] = []
        self.count = 0

    def open(self, wait: Wait) -> PlainWait:
        op = PlainWait(wait)
        self.count += 1
        for key, level in wait.needs or ():
            if key is None:
                continue
            if level is None:
                self.signals[key].append(op)
            elif self.levels.get(key, -1) >= level:
                op.missing -= 1
                op.last = max(op.last, (op.submitted_at, key))
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


def plain_replay(waits: list[Wait], events: list[Event]) -> Iterator[Outcome]:
    waits = sorted(waits, key=lambda wait: wait.submitted_at_ms or 0)
    events = sorted(events, key=lambda event: event.at_ms or 0)
    ledger = PlainLedger()
    position = 0
    for event in events:
        now = event.at_ms or 0
        while position < len(waits) and (waits[position].submitted_at_ms or 0) <= now:
            ledger.open(waits[position])
            position += 1
        for op in ledger.expire(now):
            yield Outcome(op.op_id, "expired", op.deadline, op.deadline - op.submitted_at, None, None)
        for op in ledger.record(event.key or "", event.level, now):
            yield Outcome(op.op_id, "completed", now, now - op.submitted_at, op.last[1], None)
    for op in ledger.expire(1 << 62):
        yield Outcome(op.op_id, "expired", op.deadline, op.deadline - op.submitted_at, None, None)


def best(repeats: int, run: Callable[[], object]) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def drain(outcomes: Iterator[Outcome]) -> None:
    deque(outcomes, maxlen=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waits", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    waits, events = history(arguments.waits)
    ours = best(arguments.repeats, lambda: drain(replay(waits, events)))
    plain = best(arguments.repeats, lambda: drain(plain_replay(waits, events)))
    print(ours, plain, plain / ours)
    assert sorted(replay(waits, events)) == sorted(plain_replay(waits, events))


if __name__ == "__main__":
    main()
