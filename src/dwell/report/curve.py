"""What share each timeout would have expired.

Beyond its own delay nobody knows how long an operation would have waited, unless the events were asked (`dwell curve`).
From outcomes alone the curve is therefore drawn up to the longest delay; where delays differ, it is the estimate of
Kaplan and Meier, which counts at each moment only those that were still waited for. With one delay for all it is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dwell.report.wait_histogram import ends

if TYPE_CHECKING:
    from dwell.report.figures import Figures

POINTS = 160


class Point(NamedTuple):
    delay_ms: int
    expired: float  # 0 to 1


def curve_of(figures: Figures) -> list[Point]:
    """From outcomes; empty if nothing completed."""
    completed, expired = figures.waits.counts, figures.expired_after.counts
    used = np.flatnonzero(completed + expired)
    if not figures.waits.total:
        return []
    # At risk at a wait: all that waited at least as long. An operation that ran out there was still at risk there.
    at_risk = np.cumsum((completed + expired)[::-1])[::-1]
    survival = np.cumprod(1 - np.divide(completed, at_risk, out=np.zeros(len(completed)), where=at_risk > 0))
    points = [Point(0, 1.0)]
    longest = ends()[used[-1]] - 1
    for place in used[:: max(1, len(used) // POINTS)]:
        points.append(Point(int(ends()[place]) - 1, float(survival[place])))
    if points[-1].delay_ms < longest:
        points.append(Point(int(longest), float(survival[used[-1]])))
    return points


def expired_at(points: list[Point], delay_ms: int) -> float | None:
    """The share a timeout would expire, between the points it lies between; None beyond the last."""
    if not points or delay_ms > points[-1].delay_ms:
        return None
    return float(np.interp(delay_ms, [p.delay_ms for p in points], [p.expired for p in points]))


def smallest_delay(points: list[Point], alive: float) -> int | None:
    """The smallest timeout on the curve that keeps this share (0 to 1) alive; None if none does."""
    return next((point.delay_ms for point in points if 1 - point.expired >= alive), None)
