"""What Spark is doing, while it does it: one line that changes on a terminal, a line a stage elsewhere."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from dwell.report import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# How often to look, in seconds: a terminal shall feel alive, a log shall not fill.
TERMINAL_S, PLAIN_S = 0.2, 1.0

CLEAR_LINE = "\r\x1b[2K"


class Stage(NamedTuple):
    number: int
    tasks: int
    done: int
    rows: int


@contextmanager
def progress(spark: SparkSession, doing: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show what Spark works on during the block; `doing` says what it is for. Say at the end how long it took."""
    stream = sys.stderr if stream is None else stream
    context = getattr(spark, "sparkContext", None)
    started = time.monotonic()
    if context is None:  # a remote session tells nothing of its stages
        yield
    else:
        watcher = Watcher(context, doing, stream, started)
        watcher.start()
        try:
            yield
        finally:
            watcher.end()
    print(f"{doing}: done in {words.duration(1000 * (time.monotonic() - started))}", file=stream)


class Watcher(threading.Thread):
    """Looks at Spark's stages every now and then, on a thread of its own, and shows or tells them."""

    def __init__(self, context: Any, doing: str, stream: TextIO, started_s: float) -> None:
        super().__init__(name="dwell-progress", daemon=True)
        self._context, self._doing, self._stream, self._started_s = context, doing, stream, started_s
        self._is_terminal = stream.isatty()
        self._ended = threading.Event()
        self._since_s: dict[int, float] = {}
        self._told: dict[int, Stage] = {}

    def end(self) -> None:
        self._ended.set()
        self.join(timeout=5)
        if self._is_terminal:
            self._stream.write(CLEAR_LINE)

    def run(self) -> None:
        while not self._ended.wait(TERMINAL_S if self._is_terminal else PLAIN_S):
            try:
                self.look(time.monotonic())
            except Exception:  # the session is being stopped under us
                return

    def look(self, now_s: float) -> None:
        stages = active_stages(self._context)
        for stage in stages:
            self._since_s.setdefault(stage.number, now_s)
        if self._is_terminal:
            # A longer line would wrap, and only its last part be cleared.
            columns = shutil.get_terminal_size().columns
            self._stream.write(CLEAR_LINE + self._line(stages, now_s)[: columns - 1])
            self._stream.flush()
        else:
            self._tell(stages)

    def _line(self, stages: list[Stage], now_s: float) -> str:
        elapsed = words.duration(1000 * (now_s - self._started_s))
        if not stages:
            return f"{self._doing}: planning · {elapsed}"
        stage = stages[0]
        done = f"{_bar(stage)} {stage.done}/{stage.tasks} tasks"
        rows = f", {words.count(stage.rows)} rows" if stage.rows else ""
        left_s = _left_s(stage, now_s - self._since_s[stage.number])
        left = "" if left_s is None else f", about {words.duration(1000 * left_s)} left"
        return f"{self._doing}: stage {stage.number} {done}{rows}{left} · {elapsed}"

    def _tell(self, stages: list[Stage]) -> None:
        """A line when a stage starts, and one each time it is a quarter further."""
        for stage in stages:
            before = self._told.get(stage.number)
            if before is None or 4 * stage.done // stage.tasks > 4 * before.done // before.tasks:
                self._told[stage.number] = stage
                rows = f", {words.count(stage.rows)} rows" if stage.rows else ""
                print(f"{self._doing}: stage {stage.number}, {stage.done}/{stage.tasks} tasks{rows}", file=self._stream)


def active_stages(context: Any) -> list[Stage]:
    """The stages at work now, oldest first, with the rows read (or else written) so far."""
    tracker = context.statusTracker()
    stages = []
    for number in sorted(tracker.getActiveStageIds()):
        info = tracker.getStageInfo(number)
        if info is not None and info.numTasks:
            stages.append(Stage(number, info.numTasks, info.numCompletedTasks, _rows(context, number)))
    return stages


def _rows(context: Any, number: int) -> int:
    try:
        data = context._jsc.sc().statusStore().lastStageAttempt(number)
        return int(data.inputRecords() + data.shuffleReadRecords()) or int(data.outputRecords())
    except Exception:  # not there yet, or a Spark that keeps it elsewhere: do without
        return 0


def _bar(stage: Stage, width: int = 10) -> str:
    full = width * stage.done // stage.tasks
    return "█" * full + "░" * (width - full)


def _left_s(stage: Stage, elapsed_s: float) -> float | None:
    return None if not stage.done else elapsed_s / stage.done * (stage.tasks - stage.done)
