"""Purgatories: the cost of one operation, the highest rate held under Kafka's own load model, and memory.

(a) One thread, 10 k keys, two keys per operation, purge interval 1000, timeouts 30 to 90 s, the reaper running. "one"
makes an operation, watches it and completes it through its first key; "10k" does the same with 10,000 others waiting
and completes the oldest. CPU time of the whole process, the best of many rounds; strings as keys.
(b) Kafka's load model: Poisson arrivals, log-normal latency (its median and third quartile given), a timeout of 200 ms,
three keys of 1,000; one thread submits, another forces each operation's completion when its latency is over, what takes
longer than the timeout expires. A rate is held if all arrivals were submitted within 5 % of the time they should take
(on a machine with nothing else to do); "us" is the CPU time an operation takes at that rate, all threads together.
(c) Bytes that a waiting operation with two keys takes, everything included, with 200,000 of them.

Against `plain_purgatory.py` (a dictionary of sets, `heapq` and a lock) and dwell's own readable build, in the same run.
`bench_kafka.py` has Kafka's own classes beside it.

    python -m benchmarks purgatory
    python -m benchmarks purgatory --contestant dwell --part a
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.plain_purgatory import PlainOperation, PlainPurgatory
from benchmarks.table import print_table

COLUMNS = ("one us", "10k us", "20/60 k/s", "20/60 us", "200/400 k/s", "200/400 us", "bytes")
CONTESTANTS = ("dwell", "readable", "plain")
PARTS = ("a", "b", "c")
# Median and third quartile of the latency, milliseconds.
LOADS = {"20/60": (20, 60), "200/400": (200, 400)}
TIMEOUT_MS = 200
ROUND = 5_000


class Contestant:
    """A purgatory and a class of operation that completes once its `ready` is set."""

    def __init__(self, name: str) -> None:
        self.purgatory: Any
        base: Any
        if name == "plain":
            self.purgatory, base = PlainPurgatory(), PlainOperation
        else:
            from dwell.purgatory import BUILD, DelayedOperation, Purgatory

            assert ("readable" if name == "readable" else "compiled") == BUILD
            self.purgatory, base = Purgatory("bench"), DelayedOperation

        class Operation(base):  # type: ignore[misc]
            __slots__ = ("ready",)

            def __init__(self, delay_ms: int) -> None:
                super().__init__(delay_ms)
                self.ready = False

            def try_complete(self) -> bool:
                return self.ready and self.force_complete()

            def on_complete(self) -> None:
                pass

        self.operation = Operation


# (a) the cost of one operation


def cost_us(name: str, waiting: int, rounds: int) -> float:
    contestant = Contestant(name)
    purgatory, operation_class = contestant.purgatory, contestant.operation
    watch, check = purgatory.try_complete_else_watch, purgatory.check_and_complete
    rng = random.Random(waiting)
    keys = [f"topic-{number}" for number in range(10_000)]
    work = [(rng.sample(keys, 2), rng.randrange(30_000, 90_000)) for _ in range(20 * ROUND)]
    queue: deque[tuple[Any, str]] = deque()
    for pair, delay_ms in work[-waiting:] if waiting else ():
        operation = operation_class(delay_ms)
        watch(operation, pair)
        queue.append((operation, pair[0]))
    gc.collect()
    gc.freeze()
    best = math.inf
    for number in range(rounds):
        batch = work[number % 20 * ROUND :][:ROUND]
        start = time.process_time()
        if waiting:
            for pair, delay_ms in batch:
                operation = operation_class(delay_ms)
                watch(operation, pair)
                queue.append((operation, pair[0]))
                operation, key = queue.popleft()
                operation.ready = True
                check(key)
        else:
            for pair, delay_ms in batch:
                operation = operation_class(delay_ms)
                watch(operation, pair)
                operation.ready = True
                check(pair[0])
        best = min(best, (time.process_time() - start) / ROUND)
    purgatory.close()
    return best * 1e6


# (b) Kafka's load model


def held(name: str, rate: float, median_ms: float, quartile_ms: float, seconds: float) -> tuple[bool, float]:
    """Whether `rate` operations per second can be submitted on time, and the CPU microseconds that one took."""
    rng = random.Random(int(rate))
    total = int(rate * seconds)
    # 0.6745 standard deviations lie between the median and the third quartile of a normal distribution.
    mu, sigma = math.log(median_ms), (math.log(quartile_ms) - math.log(median_ms)) / 0.6745
    arrivals = list(_poisson(rng, rate, total))
    endings = sorted((at + rng.lognormvariate(mu, sigma) / 1000, number) for number, at in enumerate(arrivals))
    ends = [at for at, _ in endings]
    order = [number for _, number in endings]
    del endings
    keys = [f"key-{number}" for number in range(1_000)]
    choices = [rng.sample(keys, 3) for _ in range(10_000)]
    contestant = Contestant(name)
    watch, operation_class = contestant.purgatory.try_complete_else_watch, contestant.operation
    forget = getattr(contestant.purgatory, "forget", None)
    operations: list[Any] = [None] * total
    submitted = 0
    given_up = False
    gc.collect()
    gc.freeze()
    started, cpu = time.monotonic() + 0.01, time.process_time()

    def complete() -> None:
        done = 0
        while done < total and not given_up:
            due = bisect_right(ends, time.monotonic() - started, done)
            for number in order[done:due]:
                while operations[number] is None:
                    if given_up:
                        return
                    time.sleep(0.001)
                if operations[number].force_complete() and forget is not None:
                    forget(operations[number])
                operations[number] = ...
            done = due
            time.sleep(0.001)

    completer = threading.Thread(target=complete)
    completer.start()
    while submitted < total and not given_up:
        now = time.monotonic() - started
        due = bisect_right(arrivals, now, submitted)
        given_up = submitted < due and now - arrivals[submitted] > 0.2 * seconds
        for number in range(submitted, due):
            operations[number] = operation = operation_class(TIMEOUT_MS)
            watch(operation, choices[number % 10_000])
        submitted = due
        time.sleep(0.001)
    taken = time.monotonic() - started
    cost = (time.process_time() - cpu) / submitted
    is_held = not given_up and taken <= arrivals[-1] * 1.05
    given_up = True
    completer.join()
    contestant.purgatory.close()
    gc.unfreeze()
    return is_held, cost * 1e6


def _poisson(rng: random.Random, rate: float, total: int) -> Iterator[float]:
    at = 0.0
    for _ in range(total):
        at += rng.expovariate(rate)
        yield at


def under_load(name: str, seconds: float) -> dict[str, float]:
    """For each load the highest rate held, by bisection to 5 %, and the CPU time per operation at that rate."""
    figures = {}
    for load, latency in LOADS.items():
        low, high, cost = 2_500.0, math.inf, math.inf
        while high / low > 1.05:
            rate = min(low * 2, math.sqrt(low * high))
            is_held, its_cost = held(name, rate, *latency, seconds)
            if is_held:
                low, cost = rate, its_cost
            else:
                high = rate
        figures[f"{load} k/s"] = low / 1000
        figures[f"{load} us"] = cost
    return figures


# (c) memory


def bytes_each(name: str, count: int) -> float:
    contestant = Contestant(name)
    keys = [f"topic-{number}" for number in range(10_000)]
    pairs = list(pairwise(keys))
    gc.collect()
    before = resident_bytes()
    operations = [contestant.operation(60_000) for _ in range(count)]
    for number, operation in enumerate(operations):
        contestant.purgatory.try_complete_else_watch(operation, pairs[number % len(pairs)])
    gc.collect()
    # Without the list that this function keeps for itself.
    used = resident_bytes() - before - sys.getsizeof(operations)
    contestant.purgatory.close()
    return used / count


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measure(name: str, part: str, quick: bool) -> dict[str, float]:
    slow = name != "dwell"
    if part == "a":
        rounds = 6 if quick or slow else 100
        return {"one us": cost_us(name, 0, rounds), "10k us": cost_us(name, 10_000, rounds)}
    if part == "b":
        seconds = 0.5 if quick else 2.0
        return under_load(name, seconds)
    return {"bytes": bytes_each(name, 200_000)}


def measure_apart(name: str, part: str, quick: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks", "purgatory", "--contestant", name, "--part", part, "--json"]
    environment = os.environ | {"DWELL_REFERENCE": "1" if name == "readable" else "0"}
    done = subprocess.run(command + ["--quick"] * quick, capture_output=True, text=True, check=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks purgatory", description=__doc__)
    parser.add_argument("--contestant", choices=CONTESTANTS)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = [options.contestant] if options.contestant else CONTESTANTS
    parts = [options.part] if options.part else PARTS
    if options.json:
        print(json.dumps(measure(options.contestant, options.part, options.quick)))
        return
    figures: dict[str, dict[str, float]] = {}
    for name in names:
        figures[name] = {}
        for part in parts:
            figures[name] |= measure_apart(name, part, options.quick)
    rows = [[name, *(row.get(column) for column in COLUMNS)] for name, row in figures.items()]
    print_table("Purgatory: CPU us per operation, operations per second held, bytes", ["", *COLUMNS], rows, digits=1)
    dwell = figures.get("dwell", {})
    for name in figures:
        if name != "dwell" and dwell:
            print(f"dwell against {name}: {_ratios(dwell, figures[name])}")


def _ratios(dwell: dict[str, float], other: dict[str, float]) -> str:
    """How many times better dwell is: cheaper, faster, smaller."""
    shared = [column for column in COLUMNS if column in dwell and column in other]
    better = {c: dwell[c] / other[c] if c.endswith("k/s") else other[c] / dwell[c] for c in shared}
    return ", ".join(f"{column} {ratio:.1f}x" for column, ratio in better.items())


if __name__ == "__main__":
    main(sys.argv[1:])
