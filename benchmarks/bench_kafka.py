"""Timer and purgatory beside Kafka's own Java classes: the same work, in the same run, CPU ns per operation.

add, pair, cancel: a million timers with delays of 60 to 120 s; pair is {add one, cancel a random one}. expire: 300,000
timers run on the real clock, CPU of all threads. just added, 10,000 waiting: an operation on two of 10,000 keys that is
completed through one of them at once, or after 10,000 others came.

    python -m benchmarks kafka                # needs a JDK of 17 or newer and Maven; says so if they are missing
    python -m benchmarks kafka --rounds 3
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from time import process_time_ns, thread_time_ns
from typing import Any

from benchmarks.table import print_table
from dwell import DelayedOperation, Purgatory, SystemTimer, TimerTask

FOLDER = Path(__file__).parent / "kafka"
WORK = Path("out/bench/kafka")
COLUMNS = ("add", "pair", "cancel", "just_added", "10k_waiting", "expire")
KEYS = 10_000


def timers(count: int, rng: random.Random) -> tuple[float, float, float]:
    """CPU ns to add one, to add one and cancel another, to cancel one."""
    timer = SystemTimer("bench")
    pairs = count // 2
    delays = [60_001 + rng.randrange(60_000) for _ in range(count + pairs)]
    victims = [rng.randrange(count) for _ in range(pairs)]
    tasks: list[Any] = [None] * count
    nothing, schedule = print, timer.schedule
    start = thread_time_ns()
    for i in range(count):
        tasks[i] = schedule(delays[i], nothing)
    added = thread_time_ns()
    for i in range(pairs):
        task = schedule(delays[count + i], nothing)
        victim = victims[i]
        tasks[victim].cancel()
        tasks[victim] = task
    paired = thread_time_ns()
    order = list(range(count))
    rng.shuffle(order)
    shuffled = thread_time_ns()
    for i in order:
        tasks[i].cancel()
    cancelled = thread_time_ns()
    assert timer.size == 0
    timer.close()
    return (added - start) / count, (paired - added) / pairs, (cancelled - shuffled) / count


class Counted(TimerTask):
    __slots__ = ()
    ran = 0

    def run(self) -> None:
        Counted.ran += 1


def expiry(count: int, rng: random.Random) -> float:
    timer = SystemTimer("bench")
    Counted.ran = 0
    for _ in range(count):
        timer.add(Counted(1_000 + rng.randrange(1_500)))
    start = process_time_ns()
    while Counted.ran < count:
        timer.advance_clock(200)
    end = process_time_ns()
    timer.close()
    return (end - start) / count


class Operation(DelayedOperation):
    __slots__ = ("ready",)

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()


def operations(count: int, waiting: int, rng: random.Random) -> float:
    """CPU ns of an operation's life, when it is completed after `waiting` others came."""
    with Purgatory("bench", purge_interval=1000) as purgatory:
        keys = [tuple(rng.sample(range(KEYS), 2)) for _ in range(count)]
        delays = [30_000 + rng.randrange(60_000) for _ in range(count)]
        ring: list[Any] = [None] * (waiting + 1)
        done = 0
        start = thread_time_ns()
        for i in range(count):
            operation = Operation(delays[i])
            purgatory.try_complete_else_watch(operation, keys[i])
            ring[i % (waiting + 1)] = operation
            oldest = i - waiting
            if oldest >= 0:
                ring[oldest % (waiting + 1)].ready = True
                done += purgatory.check_and_complete(keys[oldest][0])
        end = thread_time_ns()
        assert done == count - waiting
    return (end - start) / count


def dwell(count: int) -> dict[str, float]:
    return dict(
        zip(
            COLUMNS,
            (
                *timers(count, random.Random(42)),
                operations(count, 0, random.Random(42)),
                operations(count, 10_000, random.Random(42)),
                expiry(300_000, random.Random(42)),
            ),
            strict=True,
        )
    )


def kafka(count: int) -> dict[str, float]:
    """Runs Kafka's classes; the first call fetches and compiles them."""
    if not (WORK / "classes").exists():
        WORK.mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / "pom.xml", WORK)
        subprocess.run(["mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib"], cwd=WORK, check=True)
        subprocess.run(
            ["javac", "-cp", f"{WORK}/lib/*", "-d", f"{WORK}/classes", str(FOLDER / "Bench.java")], check=True
        )
    command = ["java", "-Xms3g", "-Xmx3g", "-cp", f"{WORK}/classes:{WORK}/lib/*", "Bench", str(count), str(count), "2"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    figures: dict[str, float] = json.loads(output)
    return figures


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks kafka")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--only-dwell", action="store_true", help="one round of dwell in this process, as JSON")
    options = parser.parse_args(arguments)
    if options.only_dwell:
        print(json.dumps(dwell(options.count)))
        return
    missing = [tool for tool in ("mvn", "javac") if shutil.which(tool) is None]
    if missing:
        print(f"\nKafka's Java is left out: there is no {' and no '.join(missing)} here.\n")
        return
    best: dict[str, dict[str, float]] = {"Kafka": {}, "dwell": {}}
    for _ in range(options.rounds):
        command = [sys.executable, "-m", "benchmarks", "kafka", "--only-dwell", "--count", str(options.count)]
        ours = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for name, figures in (("Kafka", kafka(options.count)), ("dwell", ours)):
            for column in COLUMNS:
                best[name][column] = min(figures[column], best[name].get(column, figures[column]))
    rows = [[column, best["Kafka"][column], best["dwell"][column]] for column in COLUMNS]
    print_table(
        "Kafka's Java and dwell, CPU ns per operation",
        ["", "Kafka", "dwell", "dwell / Kafka"],
        [[*row, f"{float(row[2]) / float(row[1]):.2f}"] for row in rows],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
