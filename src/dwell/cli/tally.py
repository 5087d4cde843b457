"""What the ended runs of a stream have come to, kept beside its outcomes.

The end of a run counts what came since the end of the last one, and adds it up here. So a summary costs what is new,
and old outcomes and input files may be gone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from dwell.cli.output import whole_or_nothing
from dwell.report.wait_histogram import WaitHistogram

if TYPE_CHECKING:
    from dwell.cli.output import Files

FILE_NAME = "tally.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Of all micro-batches up to `batch`."""

    batch: int = -1
    source_end: int = -1  # how far the log of the operations' source was counted, in Spark's numbers
    operations: int = 0
    repeats: int = 0
    completed: int = 0
    expired: int = 0
    rejected: int = 0
    unchecked: str | None = None  # why some operations could not be counted at their source
    longest_ms: int = 0
    waits: dict[int, int] = field(default_factory=dict)  # counters of a WaitHistogram

    @property
    def settled(self) -> int:
        return self.completed + self.expired + self.rejected

    def histogram(self) -> WaitHistogram:
        found = WaitHistogram()
        found.add_counted(self.waits, self.longest_ms)
        return found

    def with_waits(self, new: WaitHistogram) -> Tally:
        both = self.histogram()
        both.add_counted(new.counted(), new.longest)
        return replace(self, waits=both.counted(), longest_ms=both.longest)


def read_tally(files: Files, out: str) -> Tally | None:
    """None if no run has ended yet."""
    place = f"{out}/{FILE_NAME}"
    if not files.exists(place):
        return None
    said = json.loads(files.read_text(place))
    said["waits"] = {int(counter): count for counter, count in said["waits"].items()}
    return Tally(**said)


def write_tally(files: Files, out: str, tally: Tally) -> None:
    with whole_or_nothing(files, f"{out}/{FILE_NAME}", overwrite=True) as partial:
        files.write_text(partial, json.dumps(asdict(tally)) + "\n")
