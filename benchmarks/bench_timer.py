"""Timers: add, cancel in random order, {cancel one, add one}, expire everything, memory, and the cost to the collector.

Against heapq with lazy deletion, asyncio, uvloop, sched and APScheduler, in one run, each contestant and size in a
process of its own, with the garbage collector on and delays uniform in 1 ms to 60 s. CPU time, best of the repeats.

Kafka's own Java is measured by `bench_kafka.py`.

    python -m benchmarks timer                          # 100 k and 1 M pending
    python -m benchmarks timer --pending 10000          # another size
    python -m benchmarks timer --scaling timer.svg      # dwell from 10 k to 5 M, as a picture
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.contestant import CONTESTANTS, Contestant, DwellBulk
from benchmarks.table import print_table

COLUMNS = ("add", "cancel", "pair", "expire", "bytes", "beyond", "gc ms")


def cpu_ns(action: Callable[[], object], operations: int) -> float:
    start = time.process_time_ns()
    action()
    return (time.process_time_ns() - start) / operations


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def measure(contestant: type[Contestant], pending: int) -> dict[str, float]:
    """One contestant at one size, in this process."""
    rng = random.Random(pending)
    delays_ms = [rng.randrange(1, 60_001) for _ in range(pending)]
    order = rng.sample(range(pending), pending)[: contestant.most_timed]
    figures: dict[str, float] = {}

    subject = contestant(delays_ms)
    gc.collect()
    without_timers_ms = cpu_ns(gc.collect, 1) / 1e6
    before = resident_bytes()
    figures["add"] = cpu_ns(subject.add_all, pending)
    figures["bytes"] = (resident_bytes() - before) / pending
    figures["beyond"] = figures["bytes"] - subject.object_bytes()
    # What the timers add to it; less than nothing is noise.
    figures["gc ms"] = max(0.0, cpu_ns(gc.collect, 1) / 1e6 - without_timers_ms)
    if isinstance(subject, DwellBulk):
        subject.prepare(order)
    figures["cancel"] = cpu_ns(lambda: subject.cancel_all(order), len(order))

    subject = contestant(delays_ms)
    subject.add_all()
    if isinstance(subject, DwellBulk):
        subject.prepare(order)
    figures["pair"] = cpu_ns(lambda: subject.pairs(order), len(order))

    if contestant.expires:
        subject = contestant(delays_ms)
        subject.add_all()
        subject.forget()
        figures["expire"] = cpu_ns(subject.expire_all, pending)
    return figures


def measure_apart(contestant: type[Contestant], pending: int, repeats: int) -> dict[str, float]:
    """The best of several processes."""
    best: dict[str, float] = {}
    for _ in range(repeats):
        command = [
            sys.executable,
            "-m",
            "benchmarks.bench_timer",
            "--only",
            contestant.__name__,
            "--pending",
            str(pending),
        ]
        environment = os.environ | contestant.environment
        output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        for column, figure in json.loads(output).items():
            best[column] = min(figure, best.get(column, figure))
    if "add only" in contestant.name:
        # Its tasks were made before the measurement: what memory it adds is what is beyond them.
        best["beyond"] = best.pop("bytes")
    return best


def compare(sizes: list[int], repeats: int) -> None:
    for pending in sizes:
        results: dict[str, dict[str, float]] = {}
        for contestant in CONTESTANTS:
            asked = min(pending, contestant.most_pending)
            label = contestant.name if asked == pending else f"{contestant.name} ({asked:,} pending)"
            print(f"  {label} ...", file=sys.stderr, flush=True)
            results[label] = measure_apart(contestant, asked, repeats)
        rows = [[label, *(figures.get(column) for column in COLUMNS)] for label, figures in results.items()]
        print_table(
            f"Timers, {pending:,} pending: CPU ns, bytes (all; beyond the caller's object), gc.collect() in ms",
            ["", *COLUMNS],
            rows,
        )
        peer = results["asyncio"]
        ratios = [
            [label, *(peer[column] / figures[column] if figures.get(column) else None for column in COLUMNS[:4])]
            for label, figures in results.items()
            if label.startswith("dwell")
        ]
        print_table(f"asyncio / dwell, {pending:,} pending: how many times less", ["", *COLUMNS[:4]], ratios, digits=1)


def scaling(picture: str, repeats: int) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    sizes = [10_000, 100_000, 1_000_000, 5_000_000]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), sharex=True, sharey=True)
    for axis, contestant in zip(axes, (CONTESTANTS[0], DwellBulk), strict=True):
        results = []
        for pending in sizes:
            print(f"  {contestant.name}, {pending:,} ...", file=sys.stderr, flush=True)
            results.append(measure_apart(contestant, pending, repeats))
        print_table(
            f"{contestant.name}: CPU ns a timer",
            ["pending", *COLUMNS[:4]],
            [[f"{n:,}", *(r[c] for c in COLUMNS[:4])] for n, r in zip(sizes, results, strict=True)],
        )
        for column in COLUMNS[:4]:
            axis.plot(sizes, [result[column] for result in results], marker="o", label=column)
        axis.set(title=contestant.name, xlabel="pending timers", xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("CPU ns a timer")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(picture)
    print(f"wrote {picture}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks timer", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pending", type=int, action="append", help="timers that wait (default: 100000 and 1000000)")
    parser.add_argument("--repeats", type=int, default=3, help="processes a figure; the best one counts (default 3)")
    parser.add_argument("--scaling", metavar="SVG", help="measure dwell from 10 k to 5 M and draw the picture")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.only:
        [contestant] = [c for c in CONTESTANTS if c.__name__ == options.only]
        print(json.dumps(measure(contestant, options.pending[0])))
    elif options.scaling:
        scaling(options.scaling, options.repeats)
    else:
        compare(options.pending or [100_000, 1_000_000], options.repeats)


if __name__ == "__main__":
    main()
