"""Programs started by a test to be watched and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WORKERS, EXECUTORS = "pyspark.daemon", "CoarseGrainedExecutorBackend"


class Victim:
    """One life of a program that settles what is in a folder and has its checkpoints below it."""

    def __init__(self, root: Path, program: str) -> None:
        self._root = root
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tests.spark.stream.{program}", str(root)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> Path:
        """What it printed, in this life and before."""
        return self._root / "log"

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_end(self) -> None:
        assert self._process.wait() == 0, self.log.read_text()[-4000:]

    def wait_for_steps(self, count: int) -> bool:
        """True once the checkpoints were written to at so many moments, False if the program ended before.

        A micro-batch has several: its offsets, the state of each stage, the commit. One that is run again has them too.
        """
        seen = self._written()
        while count and self.is_running():
            time.sleep(0.02)
            now = self._written()
            count -= now != seen
            seen = now
        return self.is_running()

    def _written(self) -> list[int]:
        folders = ("offsets", "commits", "state/*/*")
        found = [path for name in folders for path in self._root.glob(f"*/checkpoint/{name}")]
        return [path.stat().st_mtime_ns for path in sorted(found)]

    def kill(self) -> None:
        """The driver and all that belongs to it."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_some(self, command: str, most: int | None = None) -> int:
        """Processes below it whose command line has the words; returns how many."""
        pids = _descendants(self._process.pid, command)[:most]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)


def _descendants(pid: int, command: str) -> list[int]:
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_text()
            except OSError:
                continue
    found, level = set[int](), {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found |= level
    return sorted(child for child in found if command in lines.get(child, ""))
