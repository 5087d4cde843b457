"""Ending what Spark does when Ctrl-C, SIGTERM or an error ends the command.

A Python thread speaks to Spark's Java process over a connection of its own, one call after the other. An interrupted
call leaves that connection in the middle of its answer, and the next call of the same thread would wait for the work
it wants to end. So whatever is said to Spark from then on is said by another thread.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

# How long tasks that were told to end may take, in seconds; what they write after that is not waited for.
PATIENCE_S = 60

# So often in a row nothing must be running before Spark counts as idle.
IDLE_LOOKS = 4


def elsewhere(call: Callable[[], Any]) -> None:
    """Run the call on a thread of its own and wait for it. Its errors are dropped: a better one is on its way."""

    def run() -> None:
        with suppress(Exception):  # such as: Spark has gone already, which is what was wanted
            call()

    thread = threading.Thread(target=run, name="dwell-ending", daemon=True)
    thread.start()
    thread.join()


@contextmanager
def work_ends_with_the_block(spark: SparkSession) -> Iterator[None]:
    """If the block ends badly, no task of Spark runs on and writes what is about to be removed."""
    try:
        yield
    except BaseException:
        elsewhere(lambda: _end_work(spark))
        raise


def _end_work(spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    scheduler = context._jsc.sc().taskScheduler()
    as_java = context._jvm.scala.jdk.javaapi.CollectionConverters.asJava
    give_up, idle = time.monotonic() + PATIENCE_S, 0
    while idle < IDLE_LOOKS and time.monotonic() < give_up:
        # Each time anew: between two of its jobs a query has nothing to end, and then begins the next.
        context.cancelAllJobs()
        time.sleep(0.05)
        idle = 0 if any(as_java(scheduler.runningTasksByExecutors()).values()) else idle + 1
