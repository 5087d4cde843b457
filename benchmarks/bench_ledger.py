"""The ledger side by side with what one would write without it.

    python -m benchmarks ledger [--waits 100000] [--repeats 3]

- replay: waits of two needs each (a level of a partition, as in Kafka's produce, and an acknowledgement as a signal)
  and twice as many events, all in time order, against a program with `heapq` and dictionaries that gives the same
  outcomes of these rows (`plain_ledger.py`; it knows no quorum or volume, validates nothing, has no rule on repeats).
- live: the same rows opened and recorded one by one, against the same program under a lock; both read a manual clock.
- asyncio: coroutines in `await ticket` against coroutines in `asyncio.wait_for(event.wait(), 60)`; all start, all are
  woken by one event each, all end.
- bytes a waiting operation, as tracemalloc counts them, the rows themselves not included.

Each figure is the least CPU time of the repeats, all in one process, the collector on.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import threading
import time
import tracemalloc
from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from benchmarks.plain_ledger import PlainLedger, plain_replay
from benchmarks.table import print_table
from dwell import Event, Ledger, Need, Outcome, Ticket, Wait, replay
from dwell.ledger import BUILD
from dwell.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    # A string of its own for each key, as a reader would make: nothing is gained by identity.
    return rows, [Event("".join(key.partition("-")), at_ms, level) for at_ms, key, level in happened]


def replay_all(outcomes: Iterator[Outcome]) -> None:
    deque(outcomes, maxlen=0)


def steps(waits: list[Wait], events: list[Event]) -> list[tuple[Any, Any, Any, Any]]:
    """What happens one by one: (milliseconds later, op_id, needs, delay), or (milliseconds later, None, key, level)."""
    rows: list[tuple[Any, Any, Any, Any]] = [
        *((wait.submitted_at_ms, wait.op_id, wait.needs, wait.delay_ms) for wait in waits),
        *((event.at_ms, None, event.key, event.level) for event in events),
    ]
    rows.sort(key=itemgetter(0))
    before = [(0, None, None, None), *rows]
    return [(row[0] - last[0], *row[1:]) for last, row in zip(before, rows, strict=False)]


def live(rows: list[tuple[Any, Any, Any, Any]]) -> None:
    clock = ManualClock()
    with Ledger(clock=clock, reaper=False, max_open=len(rows)) as ledger:
        for later_ms, op_id, what, number in rows:
            if later_ms:
                clock.advance(later_ms)
            if op_id is None:
                ledger.record(what, number)
            else:
                ledger.open(op_id, what, number)


def plain_live(rows: list[tuple[Any, Any, Any, Any]]) -> None:
    clock = ManualClock()
    ledger = PlainLedger()
    lock = threading.Lock()
    for later_ms, op_id, what, number in rows:
        if later_ms:
            clock.advance(later_ms)
        with lock:
            now = clock.now_ms()
            if ledger.deadlines and ledger.deadlines[0][0] < now:
                deque(ledger.expire(now), maxlen=0)
            if op_id is None:
                ledger.record(what, number, now)
            else:
                ledger.open(op_id, what, number, now)


async def await_tickets(count: int) -> None:
    async def wait(number: int) -> Outcome:
        return await ledger.open(f"op-{number}", (Need(f"key-{number}"),), 60_000)

    with Ledger(max_open=count) as ledger:
        tasks = [asyncio.create_task(wait(number)) for number in range(count)]
        await asyncio.sleep(0)
        for number in range(count):
            ledger.record(f"key-{number}")
        for task in tasks:
            assert (await task).outcome == "completed"


async def await_events(count: int) -> None:
    async def wait(event: asyncio.Event) -> bool:
        return await asyncio.wait_for(event.wait(), 60)

    events = [asyncio.Event() for _ in range(count)]
    tasks = [asyncio.create_task(wait(event)) for event in events]
    while not events[-1]._waiters:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    for event in events:
        event.set()
    for task in tasks:
        assert await task


def bytes_each(waits: list[Wait], open_all: Callable[[], object]) -> float:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = open_all()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del kept
    return used / len(waits)


def open_tickets(waits: list[Wait]) -> tuple[Ledger, list[Ticket]]:
    ledger = Ledger(clock=ManualClock(), reaper=False, max_open=len(waits))
    return ledger, [ledger.open(wait.op_id, wait.needs, wait.delay_ms) for wait in waits]


def open_plain(waits: list[Wait]) -> object:
    ledger = PlainLedger()
    return ledger, [ledger.open(wait.op_id, wait.needs, wait.delay_ms, 0) for wait in waits]  # type: ignore[arg-type]


def best(repeats: int, run: Callable[[], object]) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waits", type=int, default=100_000, help="operations; the events are twice as many")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    count, repeats = options.waits, options.repeats
    waits, events = history(count)
    assert sorted(replay(waits, events)) == sorted(plain_replay(waits, events))

    one_by_one = steps(waits, events)

    figures = [
        ("replay", lambda: replay_all(replay(waits, events)), lambda: replay_all(plain_replay(waits, events))),
        (
            "replay, in_order",
            lambda: replay_all(replay(iter(waits), iter(events), in_order=True)),
            lambda: replay_all(plain_replay(waits, events)),
        ),
        ("live", lambda: live(one_by_one), lambda: plain_live(one_by_one)),
        ("asyncio", lambda: asyncio.run(await_tickets(count)), lambda: asyncio.run(await_events(count))),
    ]
    rows: list[list[str | float]] = []
    for name, ours, theirs in figures:
        mine, other = best(repeats, ours) * 1e6 / count, best(repeats, theirs) * 1e6 / count
        rows.append([f"{name}, µs a wait", mine, other, other / mine])
    small = waits[:20_000]
    mine, other = bytes_each(small, lambda: open_tickets(small)), bytes_each(small, lambda: open_plain(small))
    rows.append(["bytes a waiting operation of two needs", mine, other, other / mine])
    print_table(f"Ledger ({BUILD}), {count:,} waits", ["", "dwell", "plain Python / asyncio", "times better"], rows, 2)


if __name__ == "__main__":
    main()
