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

# Shares of operations to keep alive that people ask for.
KEEP = (0.9, 0.99, 0.999)


class Point(NamedTuple):
    delay_ms: int
    expired: float  # 0 to 1


class Curve(NamedTuple):
    points: list[Point]  # from the shortest delay
    shortest: dict[float, int | None]  # share to keep alive -> the least delay that does


def curve_of(figures: Figures) -> Curve:
    """From outcomes; without points if nothing completed."""
    completed, expired = figures.waits.counts, figures.expired_after.counts
    if not figures.waits.total:
        return Curve([], dict.fromkeys(KEEP))
    used = np.flatnonzero(completed + expired)
    # A counter stands for its longest wait, the last one for the longest there is: a delay, if one ran out.
    delays = np.minimum(ends()[used] - 1, max(figures.waits.longest, figures.expired_after.longest))
    # At risk at a wait: all that waited at least as long. An operation that ran out there was still at risk there.
    at_risk = np.cumsum((completed + expired)[used][::-1])[::-1]
    expires = np.cumprod(1 - completed[used] / at_risk)
    # Evenly over the logarithm of the delay, which is how it is drawn.
    wanted = np.geomspace(max(delays[0], 1), max(delays[-1], 1), POINTS)
    shown = np.unique(np.append(np.searchsorted(delays, wanted).clip(max=len(used) - 1), [0, len(used) - 1]))
    points = [Point(0, 1.0), *(Point(int(delays[i]), float(expires[i])) for i in shown)]
    shortest: dict[float, int | None] = {}
    for alive in KEEP:
        enough = np.flatnonzero(1 - expires >= alive)
        shortest[alive] = int(delays[enough[0]]) if len(enough) else None
    return Curve(points, shortest)


def finer(asked: Curve, figures: Figures) -> Curve:
    """The curve that was asked for, with every wait that the outcomes know: those up to the one delay all had."""
    own = curve_of(figures).points
    if len(figures.delays) != 1 or not own:
        return asked
    chosen_ms = figures.delays[0][0]
    beyond = [point for point in asked.points if point.delay_ms > chosen_ms]
    return Curve([*(point for point in own if point.delay_ms <= chosen_ms), *beyond], asked.shortest)
