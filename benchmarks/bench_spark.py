"""Tables settled on Spark, beside what else one could do with the same rows.

    python -m benchmarks spark [--operations 1000000] [--large] [--repeats 2] [--only WORKLOAD ...]

N operations and 2 N events, read from Parquet, outcomes thrown away (Spark's noop sink), on all cores of this machine:

    signals, own key     one signal each, on a key of its own
    signals              one signal each, ten operations and twenty events a key
    one key              the same, but half of all events and half of all operations are on one key
    all on one key       the same, but all are
    levels               three keys each, all levels must be reached, thirty needs and twenty events a key
    volume               a volume over three keys each, the same events
    wide                 one operation with 10,000 keys among the signals

against (a) one shuffle by key and one sort of the same rows, the least anyone has to do; (b) the join on key and time
range with the events one would write first, where few rows share a key and where all do; (c) an equi-join on the key
with an aggregate, the best one would write by hand for signals (it checks nothing: no faults, no repeats); (d) `replay`
in this process. Seconds of wall time, the least of the repeats, in one run; for settle also the CPU seconds of that
repeat, what it shuffled (compressed), and the most memory the JVM had resident meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.table import Cell, print_table
from dwell.ledger import Event, Need, Wait, replay
from dwell.spark import settle
from dwell.spark.java import ensure_java

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks spark")
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--large", action="store_true", help="ten times as many")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", action="append", help="this workload; may be given several times")
    given = parser.parse_args(arguments)
    count = given.operations * (10 if given.large else 1)
    ensure_java()
    with tempfile.TemporaryDirectory(prefix="dwell-bench-") as scratch:
        spark = (
            SparkSession.builder.master("local[*]")
            .appName("dwell benchmark")
            .config("spark.driver.memory", "8g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", str(max(8, count // 250_000)))
            .config("spark.local.dir", scratch)
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            _run(spark, Path(scratch), count, given.repeats, given.only)
        finally:
            spark.stop()


def _run(spark: SparkSession, scratch: Path, count: int, repeats: int, only: list[str] | None) -> None:
    rows: list[list[Cell]] = []
    for name, (operations, events) in _workloads(spark, count).items():
        if only and name not in only:
            continue
        folder = scratch / name.replace(" ", "-").replace(",", "")
        operations.write.parquet(str(folder / "operations"))
        events.write.parquet(str(folder / "events"))
        operations, events = spark.read.parquet(str(folder / "operations")), spark.read.parquet(str(folder / "events"))
        floor = _best(lambda o=operations, e=events: _run_out(_shuffled(o, e)), repeats)
        jvm = Jvm(spark)
        ours, cpu, shuffled = min(
            jvm.cost(lambda o=operations, e=events: _run_out(settle(o, e))) for _ in range(repeats)
        )
        peak = jvm.peak_mb()
        by_hand: float | None = None
        if name.startswith("signals"):
            by_hand = _best(lambda o=operations, e=events: _run_out(_joined(o, e)), repeats)
        rows.append([name, floor, ours, ours / floor, by_hand, by_hand and ours / by_hand, cpu, shuffled, peak])
        print(f"{name}: {ours:.1f} s, {ours / floor:.1f} times (a)", file=sys.stderr, flush=True)
    columns = [
        "(a) shuffle + sort",
        "settle",
        "settle / (a)",
        "(c) by hand",
        "settle / (c)",
        "CPU s",
        "shuffled MB",
        "peak MB",
    ]
    print_table(f"{count:,} operations, {2 * count:,} events, seconds", ["workload", *columns], rows, digits=1)
    if not only:
        _small(spark, count // 100)


def _small(spark: SparkSession, count: int) -> None:
    """Against what does not end, or not soon, at full size."""
    rows: list[list[Cell]] = []
    for name, keys in (("signals, own key", count), ("all on one key", 1)):
        operations, events = _signals(spark, count, keys)
        operations, events = operations.cache(), events.cache()
        operations.count(), events.count()
        range_join = _best(lambda o=operations, e=events: _run_out(_range_joined(o, e)), 1)
        ours = _best(lambda o=operations, e=events: _run_out(settle(o, e)), 2)
        waits = [
            Wait(r.op_id, [Need(*need) for need in r.needs], r.delay_ms, r.ms)
            for r in operations.select("*", F.unix_millis("submitted_at").alias("ms")).drop("submitted_at").collect()
        ]
        happened = [Event(*row) for row in events.select("key", F.unix_millis("at"), "level").collect()]
        in_process = _best(lambda w=waits, h=happened: sum(1 for _ in replay(w, h)), 1)
        rows.append([name, range_join, in_process, ours])
    print_table(
        f"{count:,} operations, {2 * count:,} events, seconds",
        ["workload", "(b) range join", "(d) replay", "settle"],
        rows,
        digits=1,
    )


def _workloads(spark: SparkSession, count: int) -> dict[str, tuple[DataFrame, DataFrame]]:
    operations, events = _signals(spark, count, count // 10)
    levels, risen = _levels(spark, count)
    wide = _operations(spark.range(1), F.transform(F.sequence(F.lit(0), F.lit(9_999)), lambda i: _need(_key(i))))
    hot = _key(F.lit(0))
    half = F.when(F.rand(12) < 0.5, F.array(_need(hot)))
    return {
        "signals, own key": _signals(spark, count, count),
        "signals": (operations, events),
        "one key": (
            operations.withColumn("needs", F.coalesce(half, "needs")),
            events.withColumn("key", F.when(F.rand(11) < 0.5, hot).otherwise(F.col("key"))),
        ),
        "all on one key": _signals(spark, count, 1),
        "levels": (levels, risen),
        "volume": (levels.withColumn("volume", F.lit(60).cast("bigint")), risen),
        "wide": (operations.unionByName(wide.withColumn("op_id", F.lit("wide"))), events),
    }


def _signals(spark: SparkSession, count: int, keys: int) -> tuple[DataFrame, DataFrame]:
    own = F.col("id") if keys == count else (F.rand(2) * keys).cast("bigint")
    return _operations(spark.range(count), F.array(_need(_key(own)))), _events(spark, count, keys, F.lit(None))


def _levels(spark: SparkSession, count: int) -> tuple[DataFrame, DataFrame]:
    """A key's level rises by 10 or so with each of its twenty events; an operation asks for a level near now."""
    keys = count // 10
    now = (F.unix_millis("submitted_at") - START_MS) * 200 / HOUR_MS
    three = F.array(*(_need(_key((F.rand(20 + i) * keys).cast("bigint")), (now + 5).cast("bigint")) for i in range(3)))
    distinct = F.size(F.array_distinct(F.col("needs.key"))) == 3
    operations = _operations(spark.range(count), F.lit(None)).drop("needs").withColumn("needs", three).where(distinct)
    level = ((F.unix_millis("at") - START_MS) * 200 / HOUR_MS).cast("bigint")
    events = _events(spark, count, keys, F.lit(None)).withColumn("level", level)
    return operations, events


def _operations(ids: DataFrame, needs: Column) -> DataFrame:
    return ids.select(
        F.concat(F.lit("operation-"), F.col("id")).alias("op_id"),
        _time(3).alias("submitted_at"),
        (F.rand(4) * 600_000).cast("bigint").alias("delay_ms"),
        needs.alias("needs"),
        F.lit(None).cast("int").alias("quorum"),
        F.lit(None).cast("bigint").alias("volume"),
    )


def _events(spark: SparkSession, count: int, keys: int, level: Column) -> DataFrame:
    key = _key((F.rand(5) * keys).cast("bigint"))
    return spark.range(2 * count).select(key.alias("key"), _time(6).alias("at"), level.cast("bigint").alias("level"))


def _key(number: Column) -> Column:
    return F.concat(F.lit("customer-"), number)


def _need(key: Column, level: Column | None = None) -> Column:
    return F.struct(key.alias("key"), (F.lit(None) if level is None else level).cast("bigint").alias("level"))


def _time(seed: int) -> Column:
    return F.timestamp_millis(F.lit(START_MS) + (F.rand(seed) * HOUR_MS).cast("bigint"))


def _shuffled(operations: DataFrame, events: DataFrame) -> DataFrame:
    asked = operations.select(F.explode("needs").alias("need"), "op_id", F.col("submitted_at").alias("at"), "delay_ms")
    happened = events.select("key", "level", F.lit(None).cast("string").alias("op_id"), "at")
    both = asked.select("need.*", "op_id", "at", "delay_ms").unionByName(happened, allowMissingColumns=True)
    return both.repartition("key").sortWithinPartitions("key", "at")


def _asked(operations: DataFrame) -> DataFrame:
    deadline = F.timestamp_millis(F.unix_millis("submitted_at") + F.col("delay_ms"))
    return operations.select("op_id", "submitted_at", deadline.alias("deadline"), F.col("needs")[0]["key"].alias("key"))


def _joined(operations: DataFrame, events: DataFrame) -> DataFrame:
    """All pairs of a key, then the first event in time for each operation."""
    in_time = (F.col("at") >= F.col("submitted_at")) & (F.col("at") <= F.col("deadline"))
    first = F.min(F.when(in_time, F.col("at")))
    by = ("op_id", "submitted_at", "deadline", "key")
    return _told(_asked(operations).join(events, "key", "left").groupBy(*by).agg(first.alias("first")))


def _range_joined(operations: DataFrame, events: DataFrame) -> DataFrame:
    asked, happened = _asked(operations).alias("a"), events.alias("e")
    on = F.expr("e.key = a.key and e.at between a.submitted_at and a.deadline")
    pairs = asked.join(happened, on, "left").select("a.*", F.col("e.at").alias("at"))
    by = ("op_id", "submitted_at", "deadline", "key")
    return _told(pairs.groupBy(*by).agg(F.min("at").alias("first")))


def _told(found: DataFrame) -> DataFrame:
    completed = F.col("first").isNotNull()
    finished = F.coalesce("first", "deadline")
    return found.select(
        "op_id",
        F.when(completed, "completed").otherwise("expired").alias("outcome"),
        finished.alias("finished_at"),
        (F.unix_millis(finished) - F.unix_millis("submitted_at")).alias("waited_ms"),
        F.when(completed, F.col("key")).alias("completed_by"),
    )


def _run_out(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _best(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)


class Jvm:
    """What the JVM behind a session takes, as the system and Spark count it."""

    def __init__(self, spark: SparkSession) -> None:
        """From here on the peak is counted, where the system allows it; otherwise from the start of the JVM."""
        self._process = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}")  # type: ignore[union-attr]
        self._status = spark.sparkContext._jsc.sc().statusStore()  # type: ignore[union-attr]
        with suppress(OSError):
            (self._process / "clear_refs").write_text("5")

    def cost(self, work: Callable[[], object]) -> tuple[float, float, float]:
        """Wall seconds, CPU seconds and megabytes shuffled."""
        cpu, shuffled, started = self._cpu(), self._shuffled(), perf_counter()
        work()
        return perf_counter() - started, self._cpu() - cpu, (self._shuffled() - shuffled) / 1e6

    def peak_mb(self) -> int:
        """The most memory that was resident, heap and all; 0 where the system does not say."""
        status = self._process / "status"
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)

    def _cpu(self) -> float:
        stat = self._process / "stat"
        if not stat.exists():
            return 0.0
        user, system = stat.read_text().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _shuffled(self) -> int:
        return int(self._status.executorSummary("driver").totalShuffleWrite())


if __name__ == "__main__":
    main(sys.argv[1:])
