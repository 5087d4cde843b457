"""What a running stream says, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.cli.stream_job import _Teller
from dwell.cli.summary import Summary
from dwell.spark.stream.listener import Figures

if TYPE_CHECKING:
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
