"""What a stream says while it runs and when it ends, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dwell.cli.output import LocalFiles
from dwell.cli.stream_job import _Teller
from dwell.cli.stream_summary import GONE, MAY_REPEAT, NO_FILES, Came, _checked
from dwell.cli.summary import Summary
from dwell.cli.tally import Tally, read_tally, write_tally
from dwell.report.wait_histogram import WaitHistogram
from dwell.spark.stream.listener import Figures

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def figures(batch: int, completed: int = 0) -> Figures:
    return Figures(
        query="q",
        batch=batch,
        completed=completed,
        expired=0,
        rejected=0,
        pending=7,
        late=0,
        aside=0,
        watermark_ms=0,
        lag_ms=0,
        state_bytes=0,
        batch_ms=1500,
    )


def test_a_line_for_each_batch_that_decided_something_and_none_after_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell = _Teller()
    tell(figures(0, completed=1200))
    tell(figures(1))
    tell.end()
    tell(figures(2, completed=3))
    said = "batch 0: 1,200 completed, 0 expired, 0 rejected; 7 pending, 0 late events; 1.5 s\n"
    assert capsys.readouterr().err == said


def test_a_stream_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"operations": 3, "repeats": 0, "completed": 1, "expired": 1, "rejected": 0, "pending": 1}
    Summary(engine="x", out="x", seconds=2, **counts).tell()  # type: ignore[arg-type]
    assert "took       2 s\n" in capsys.readouterr().out


class Source:
    """Stands for the files of a stream: how far its log goes, and what lies behind each place of it."""

    def __init__(self, end: int | None, counted: dict[int, Came | None]) -> None:
        self._end, self._counted = end, counted
        self.asked: list[int] = []

    def end(self) -> int | None:
        return self._end

    def counted(self, *, after: int, upto: int) -> Came | None:
        assert upto == self._end
        self.asked.append(after)
        return self._counted[after]


BEFORE = Tally(batch=9, source_end=4, operations=100, repeats=3, completed=85, expired=5, rejected=10)


def test_only_what_came_since_the_last_end_is_counted() -> None:
    source = Source(7, {4: Came(20, 1)})
    # Of the 20, 17 are settled already.
    tally = _checked(replace(BEFORE, completed=102), 3, source)  # type: ignore[arg-type]
    assert (tally.operations, tally.repeats, tally.source_end, tally.unchecked) == (120, 4, 7, None)
    assert source.asked == [4]


def test_a_repeat_of_an_older_operation_shows_among_all_files() -> None:
    source = Source(7, {4: Came(20, 1), -1: Came(119, 5)})
    tally = _checked(replace(BEFORE, completed=102), 2, source)  # type: ignore[arg-type]
    assert (tally.operations, tally.repeats, tally.unchecked) == (119, 5, None)


def test_an_operation_that_is_lost_is_not_taken_for_a_repeat() -> None:
    tally = _checked(replace(BEFORE, completed=102), 2, Source(7, {4: Came(20, 1), -1: Came(120, 4)}))  # type: ignore[arg-type]
    assert tally.operations == tally.settled + 2 + 1


def test_files_that_are_gone_are_said_and_not_forgotten() -> None:
    gone: list[tuple[dict[int, Came | None], str]] = [({4: None}, GONE), ({4: Came(20, 1), -1: None}, MAY_REPEAT)]
    for counted, why in gone:
        tally = _checked(replace(BEFORE, completed=102), 2, Source(7, counted))  # type: ignore[arg-type]
        assert (tally.operations, tally.unchecked) == (119, why)
        later = _checked(tally, 2, Source(8, {7: Came(0, 0)}))  # type: ignore[arg-type]
        assert later.unchecked == why
    assert _checked(BEFORE, 2, Source(None, {})).unchecked == NO_FILES  # type: ignore[arg-type]


def test_a_tally_is_kept_whole(tmp_path: Path) -> None:
    assert read_tally(LocalFiles(), str(tmp_path)) is None
    waits = WaitHistogram()
    waits.add(np.array([0, 5, 5, 10**9]))
    tally = BEFORE.with_waits(waits).with_waits(waits)
    write_tally(LocalFiles(), str(tmp_path), tally)
    assert read_tally(LocalFiles(), str(tmp_path)) == tally
    assert tally.histogram().total == 8
    assert tally.histogram().percentile(1) == 10**9


def test_what_was_not_checked_is_said_with_the_reason() -> None:
    counts = {"operations": 3, "repeats": 0, "completed": 1, "expired": 1, "rejected": 0, "pending": 1}
    said = Summary(engine="x", out="x", seconds=2, unchecked=GONE, **counts).identity()  # type: ignore[arg-type]
    assert said.startswith(
        "ledger identity not checked, input files were gone before they could be counted: 3 operations"
    )
