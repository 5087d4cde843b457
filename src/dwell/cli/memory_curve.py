"""The timeout curve in this process: one replay with the longest candidate answers for all."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from dwell.cli.candidate import candidates
from dwell.cli.curve_file import Candidate, CurveFile
from dwell.cli.memory_input import read_events, read_waits
from dwell.ledger import replay
from dwell.report.curve import KEEP
from dwell.report.wait_histogram import rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.cli.inputs import Inputs


def curve_in_memory(
    inputs: Inputs, delays_ms: Sequence[int] | None = None, keep: Sequence[float] | None = None
) -> CurveFile:
    rows, _ = read_waits(inputs)
    delays = Counter(wait.delay_ms for wait in rows if wait.delay_ms is not None and wait.delay_ms >= 0)
    chosen_ms = delays.most_common(1)[0][0] if delays else None
    tried = sorted(delays_ms) if delays_ms else candidates(chosen_ms)
    outcomes = replay([wait._replace(delay_ms=tried[-1]) for wait in rows], read_events(inputs))
    settled = [outcome for outcome in outcomes if outcome.outcome != "rejected"]
    waits = sorted(o.waited_ms for o in settled if o.outcome == "completed" and o.waited_ms is not None)
    operations = len(settled)
    found = []
    for delay_ms in tried:
        expired = operations - bisect_right(waits, delay_ms)
        found.append(Candidate(delay_ms=delay_ms, expired=expired, share=expired / operations if operations else 0.0))
    return CurveFile(
        operations=operations,
        chosen_ms=chosen_ms,
        candidates=found,
        shortest={str(alive): _least(waits, rank(alive, operations)) for alive in keep or KEEP},
    )


def _least(waits: list[int], needed: int) -> int | None:
    return waits[needed - 1] if 0 < needed <= len(waits) else None
