"""The Spark session: made here and nowhere else in dwell.

What Spark's Java process says on standard error goes to a file, so that a terminal shows our words and the progress.
With `--debug` it goes to standard error after all.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dwell.cli.argument import pair
from dwell.cli.ending import elsewhere
from dwell.cli.problem import Problem
from dwell.cli.spark_setting import is_under_spark_submit, told_elsewhere
from dwell.errors import MissingExtra

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

# Spark's transformWithState keeps its state in RocksDB or not at all.
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# Times without a zone are UTC, and are written as the standard says; Spark's own choice is older, and has no zone.
TIMES = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

# Half of the machine's memory for a local Spark, but no more than this: settling sorts on disk when it must.
MOST_MEMORY = 8 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--master",
        metavar="URL",
        help="where Spark runs (default: what spark-submit or Spark's files say, or local[*])",
    )
    group.add_argument(
        "--conf", type=pair, action="append", default=[], metavar="K=V", help="a setting of Spark; may be repeated"
    )
    group.add_argument("--driver-memory", metavar="SIZE", help="such as 4g (default: half of the memory, at most 8g)")


@contextmanager
def session(args: argparse.Namespace, *, stream: bool = False) -> Iterator[SparkSession]:
    """A session as the arguments say, stopped at the end."""
    try:
        from pyspark.sql import SparkSession

        from dwell.spark.java import ensure_java
    except MissingExtra:
        raise
    except ImportError as error:
        raise MissingExtra(
            "this needs PySpark: pip install 'dwell[spark]' (or, for settle, --engine memory)"
        ) from error
    ensure_java()
    chosen = settings(args, told_elsewhere(), stream=stream)
    if chosen["spark.master"].startswith("local"):
        # Spark's Python workers shall be this Python, with dwell in it, and not whatever `python3` is.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _java_log(args.debug) as log, _own_ctrl_c():
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            if args.debug:
                raise
            raise Problem(_start_failure(chosen["spark.master"], log, error)) from error
    try:
        yield spark
    finally:
        elsewhere(spark.stop)
        if log is not None:
            log.unlink(missing_ok=True)


def settings(args: argparse.Namespace, told: Mapping[str, str], *, stream: bool = False) -> dict[str, str]:
    """What this command sets. The command line comes first, then what Spark was `told` elsewhere, then our defaults."""
    if args.driver_memory and is_under_spark_submit():
        raise Problem("--driver-memory comes too late, Java runs already: pass it to spark-submit")
    said = dict(args.conf)
    if args.master is not None:
        said["spark.master"] = args.master
    if args.driver_memory is not None:
        said["spark.driver.memory"] = args.driver_memory
    master = said.get("spark.master") or told.get("spark.master") or "local[*]"
    ours = {
        "spark.app.name": f"dwell {args.command}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        ours |= _local_settings(stream)
    if stream:
        ours["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
    yielding = {name: value for name, value in ours.items() if name not in told}
    return {**yielding, **TIMES, **said, "spark.master": master}


def _local_settings(stream: bool) -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        "spark.driver.memory": f"{_memory() >> 20}m",
        # How often running tasks tell how far they are; the progress shows it.
        "spark.executor.heartbeatInterval": "2s",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Spark's 200 is meant for a cluster; the adaptive planner joins small ones.
        "spark.sql.shuffle.partitions": str(cores if stream else max(32, 4 * cores)),
    }


def _memory() -> int:
    return min(MOST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """Spark puts a handler of its own in place, which asks for the jobs to end over a connection that is busy."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def _java_log(debug: bool) -> Iterator[Path | None]:
    """The Java process started in this block writes its standard error to the file, for as long as it lives."""
    if debug:
        yield None
        return
    descriptor, name = tempfile.mkstemp(prefix="dwell-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _start_failure(master: str, log: Path | None, error: Exception) -> str:
    said = log.read_text(errors="replace") if log is not None else ""
    no_master = f"Spark knows no master {master!r}: local[*], spark://host:7077, yarn, k8s://…"
    for needle, words in (
        ("Could not parse Master URL", no_master),
        ("Master must either be", no_master),
        ("UnsupportedClassVersionError", "Spark needs Java 17 or newer: pip install 'dwell[java]' brings one"),
        ("Invalid maximum heap size", "--driver-memory is not a size Java takes: write 4g or 800m"),
        ("Could not reserve enough space", "there is not that much memory: give a smaller --driver-memory"),
        ("All masters are unresponsive", f"no Spark master answers at {master}: check the address"),
    ):
        if needle in said or needle in str(error):
            if log is not None:
                log.unlink()
            return words
    return f"Spark did not start ({str(error).splitlines()[0]}); its log is {log}, --debug shows it here"
