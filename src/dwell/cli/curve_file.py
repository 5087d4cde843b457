"""The timeout curve as JSON: `dwell curve --json` and `dwell settle --curve` write it, `dwell report` draws it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dwell.cli.problem import Problem

if TYPE_CHECKING:
    from pathlib import Path

# Beside the outcomes it belongs to.
FILE_NAME = "curve.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One timeout, and how many operations it would have expired had it been everyone's."""

    delay_ms: int
    expired: int
    share: float  # 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFile:
    operations: int
    chosen_ms: int | None  # the delay most operations have
    candidates: list[Candidate]  # from the shortest
    shortest: dict[str, int | None]  # share to keep alive -> the least timeout that does

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def read_curve(path: Path) -> CurveFile:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        candidates = [Candidate(**one) for one in said.pop("candidates")]
        return CurveFile(candidates=candidates, **said)
    except (ValueError, TypeError, KeyError) as error:
        raise Problem(f"{path} is no curve: make one with `dwell curve … --json {path}`") from error
