"""The progress of Spark's work, without Spark: what is shown on a terminal, and what is told where there is none."""

from __future__ import annotations

import io

import pytest

from dwell.cli import progress
from dwell.cli.progress import CLEAR_LINE, Stage, Watcher


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[Stage]:
    """The stages at work; a test changes them in place."""
    stages: list[Stage] = []
    monkeypatch.setattr(progress, "active_stages", lambda context: list(stages))
    return stages


def test_a_terminal_has_one_line_with_stage_rows_and_time_left(now: list[Stage]) -> None:
    stream = Terminal()
    watcher = Watcher(None, "settling", stream, started_s=100)
    watcher.look(now_s=101)
    now.append(Stage(3, 8, 0, 0))
    watcher.look(now_s=102)
    now[:] = [Stage(3, 8, 2, 1500), Stage(4, 8, 0, 0)]
    watcher.look(now_s=122)
    assert stream.getvalue().split(CLEAR_LINE)[1:] == [
        "settling: planning · 1 s",
        "settling: stage 3 ░░░░░░░░░░ 0/8 tasks · 2 s",
        "settling: stage 3 ██░░░░░░░░ 2/8 tasks, 1,500 rows, about 1 min left · 22 s",
    ]


def test_elsewhere_there_is_a_line_when_a_stage_starts_and_at_each_quarter(now: list[Stage]) -> None:
    stream = io.StringIO()
    watcher = Watcher(None, "settling", stream, started_s=0)
    for done in range(9):
        now[:] = [Stage(3, 8, done, 10 * done)]
        watcher.look(now_s=done)
    assert stream.getvalue().splitlines() == [
        "settling: stage 3, 0/8 tasks",
        "settling: stage 3, 2/8 tasks, 20 rows",
        "settling: stage 3, 4/8 tasks, 40 rows",
        "settling: stage 3, 6/8 tasks, 60 rows",
        "settling: stage 3, 8/8 tasks, 80 rows",
    ]


def test_a_line_is_never_longer_than_the_terminal(now: list[Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    now.append(Stage(3, 8, 2, 1500))
    Watcher(None, "settling", stream, started_s=0).look(now_s=9)
    assert stream.getvalue() == f"{CLEAR_LINE}settling: stage 3 ██░░░░░░░░ "
