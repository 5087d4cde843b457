"""The five pictures: each takes figures and gives an SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dwell.report import words
from dwell.report.figures import KINDS
from dwell.report.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    axes,
    compact,
    element,
    label,
    linear,
    logarithmic_duration,
    path,
    picture,
    stamp,
    time,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.report.curve import Point
    from dwell.report.figures import Figures

FLOOR = HEIGHT - BOTTOM
MARKED = (0.5, 0.9, 0.99, 0.999)
BARS = 60

# The room the name of a percentile takes.
MARK_GAP, ROW = 52, 16


def outcomes_over_time(figures: Figures) -> str:
    """Stacked bars: what became of the operations submitted in each stretch of time."""
    totals = [sum(column) for column in zip(*figures.over_time.values(), strict=True)]
    bins, width_ms = len(totals), figures.bin_ms
    x = time(figures.start_ms, figures.start_ms + bins * width_ms, LEFT, WIDTH - RIGHT)
    y = linear(max(totals, default=1), FLOOR, TOP, compact)
    parts = [axes(x, y)]
    for i in range(bins):
        left, right = x.place(figures.start_ms + i * width_ms), x.place(figures.start_ms + (i + 1) * width_ms)
        below = 0
        tip = f"{stamp(figures.start_ms + i * width_ms, width_ms)}: " + ", ".join(
            f"{words.count(figures.over_time[kind][i])} {kind}" for kind in KINDS if figures.over_time[kind][i]
        )
        for kind in KINDS:
            found = figures.over_time[kind][i]
            if found:
                top, bottom = y.place(below + found), y.place(below)
                parts.append(
                    element(
                        "rect",
                        x=left,
                        y=top,
                        width=_bar_width(left, right),
                        height=bottom - top,
                        class_=kind,
                        data_tip=tip,
                    )
                )
                below += found
    return picture("".join(parts), "Operations over time by what became of them")


def waits(figures: Figures) -> str:
    """A histogram of the waits of completed operations on a logarithmic axis, percentiles marked."""
    found = figures.waits
    if not found.total:
        return ""
    low, high = max(found.percentile(0.0005), 1), max(found.percentile(1), 2)
    edges = np.unique(np.round(np.geomspace(low, high + 1, BARS + 1)).astype(np.int64))
    if len(edges) < 2:
        edges = np.array([low, high + 1])
    counts = np.diff(found.within(edges - 1))
    counts[0] += int(found.within(edges[:1] - 1)[0])
    x = logarithmic_duration(float(edges[0]), float(edges[-1]), LEFT, WIDTH - RIGHT)
    marks = [x.place(found.percentile(share)) for share in MARKED]
    rows = _mark_rows(marks)
    # Edges are whole milliseconds, so the first bars are wider or narrower than the rest: a count is an area.
    usual = np.log(edges[-1] / edges[0]) / min(BARS, len(counts))
    heights = counts * usual / np.diff(np.log(edges))
    y = linear(float(heights.max()), FLOOR, TOP + 20 + ROW * max(rows), compact)
    parts = [axes(x, y)]
    for i, (count, height) in enumerate(zip(counts.tolist(), heights.tolist(), strict=True)):
        left, right = x.place(float(edges[i])), x.place(float(edges[i + 1]))
        tip = f"{words.duration(int(edges[i]))} to {words.duration(int(edges[i + 1]))}: {words.count(count)}"
        if count:
            parts.append(
                element(
                    "rect",
                    x=left,
                    y=y.place(height),
                    width=_bar_width(left, right),
                    height=FLOOR - y.place(height),
                    class_="completed",
                    data_tip=tip,
                )
            )
    parts += _percentile_marks(marks, rows)
    return picture("".join(parts), "How long completed operations waited")


def _bar_width(left: float, right: float) -> float:
    """With a gap to the next one, unless the bars are so thin that gaps would be half of what is seen."""
    return max(right - left - min(1.0, 0.12 * (right - left)), 0.5)


def _mark_rows(places: list[float]) -> list[int]:
    """A row for each name: the first where it covers no other."""
    last: list[float] = []
    rows = []
    for at in places:
        row = next((row for row, before in enumerate(last) if at - before >= MARK_GAP), len(last))
        last[row:] = [at, *last[row + 1 :]]
        rows.append(row)
    return rows


def _percentile_marks(places: list[float], rows: list[int]) -> list[str]:
    parts = []
    for share, at, row in zip(MARKED, places, rows, strict=True):
        y = TOP + 10 + ROW * row
        parts.append(element("line", x1=at, x2=at, y1=y + 4, y2=FLOOR, class_="mark"))
        parts.append(label(min(at, WIDTH - MARK_GAP / 2), y, f"p{100 * share:g}", "note"))
    return parts


def timeout_curve(points: Sequence[Point], chosen_ms: int | None) -> str:
    """The share each timeout would have expired; the chosen one marked."""
    shown = [point for point in points if point.delay_ms > 0]
    if len(shown) < 2:
        return ""
    # Below the point where almost all expire there is nothing to see.
    low = next((p.delay_ms for p in shown if p.expired < 0.995), shown[0].delay_ms)
    x = logarithmic_duration(low, shown[-1].delay_ms, LEFT, WIDTH - RIGHT)
    y = linear(1, FLOOR, TOP, lambda value: f"{100 * value:.0f} %")
    shown = [point for point in shown if point.delay_ms >= low]
    line = [(x.place(p.delay_ms), y.place(p.expired)) for p in shown]
    parts = [
        axes(x, y),
        path([(line[0][0], FLOOR), *line, (line[-1][0], FLOOR)], "area expired"),
        path(line, "line expired"),
    ]
    for (at, high), point in zip(line, shown, strict=True):
        tip = f"{words.duration(point.delay_ms)}: {words.share(point.expired, 1)} would expire"
        parts.append(element("circle", cx=at, cy=high, r=6, class_="touch", data_tip=tip))
    if chosen_ms is not None and low <= chosen_ms <= shown[-1].delay_ms:
        share = float(np.interp(chosen_ms, [p.delay_ms for p in shown], [p.expired for p in shown]))
        at, high = x.place(chosen_ms), y.place(share)
        parts.append(element("line", x1=at, x2=at, y1=TOP, y2=FLOOR, class_="mark"))
        parts.append(element("circle", cx=at, cy=high, r=5, class_="dot"))
        side, gap = ("end", -10) if at > WIDTH / 2 else ("start", 10)
        said = f"{words.duration(chosen_ms)}, chosen: {words.share(share, 1)} expire"
        parts.append(label(at + gap, TOP + 12, said, "note", side))
    return picture("".join(parts), "The share of operations each timeout would have expired")


def groups_that_expire(figures: Figures) -> str:
    """Bars for the groups with most expired operations, with the share of theirs that this is."""
    rows = figures.groups
    if not rows:
        return ""
    row, left, right = 26, 170, 150
    height = row * len(rows) + 10
    most = rows[0][1]
    parts = []
    for i, (name, expired, total) in enumerate(rows):
        y, width = 5 + i * row, (WIDTH - left - right) * expired / most
        shown = name if len(name) <= 22 else name[:10] + "…" + name[-11:]
        parts.append(label(left - 10, y + 17, shown, "name", "end"))
        tip = f"{name}: {words.count(expired)} of {words.count(total)} expired"
        parts.append(
            element(
                "rect", x=left, y=y + 3, width=max(width, 1.0), height=row - 6, rx=2, class_="expired", data_tip=tip
            )
        )
        said = f"{words.count(expired)}  ({words.share(expired, total)})"
        parts.append(label(left + width + 8, y + 17, said, "note", "start"))
    return picture("".join(parts), f"Which {figures.group_by} expires most", height)


def pending_over_time(figures: Figures) -> str:
    """How many operations were waiting at the end of each stretch of time."""
    bins, width_ms = len(figures.pending), figures.bin_ms
    end_ms = figures.start_ms + bins * width_ms
    x = time(figures.start_ms, end_ms, LEFT, WIDTH - RIGHT)
    y = linear(max(figures.pending, default=1), FLOOR, TOP, compact)
    line = [(x.place(figures.start_ms), y.place(0))]
    touch = []
    for i, waiting in enumerate(figures.pending):
        at_ms = figures.start_ms + (i + 1) * width_ms
        line.append((x.place(at_ms), y.place(waiting)))
        tip = f"{stamp(at_ms, width_ms)}: {words.count(waiting)} waiting"
        touch.append(element("circle", cx=line[-1][0], cy=line[-1][1], r=6, class_="touch", data_tip=tip))
    shape = path([*line, (line[-1][0], FLOOR), (line[0][0], FLOOR)], "area pending") + path(line, "line pending")
    return picture(axes(x, y) + shape + "".join(touch), "Operations waiting over time")
