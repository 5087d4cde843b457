"""The few SVG elements a chart is made of, and scales with readable ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING

from dwell.report import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The drawing area, in the units of the viewBox: the page scales it to its width.
WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 36

# The most ticks an axis of time has, and how far apart two ticks of durations are at least.
MOST_TICKS, TICK_GAP = 8, 72

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
TIME_STEPS: tuple[int, ...] = (1, 5, 10, 50, 100, 500, SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE)
TIME_STEPS += (HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)
MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 600, 1200, 6000, 12_000)
MONTH = 30.44 * DAY

# Durations people name; a logarithmic axis takes its ticks from here, those in front first.
DURATIONS: tuple[int, ...] = (
    1,
    10,
    100,
    SECOND,
    10 * SECOND,
    MINUTE,
    10 * MINUTE,
    HOUR,
    DAY,
    7 * DAY,
    30 * DAY,
    365 * DAY,
)
DURATIONS += (2, 5, 20, 50, 200, 500, 2 * SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE, 5 * MINUTE, 30 * MINUTE)
DURATIONS += (6 * HOUR, 12 * HOUR, 2 * HOUR, 3 * DAY, 14 * DAY, 90 * DAY, 2 * DAY, 5 * DAY, 60 * DAY, 180 * DAY)
DURATIONS += (3, 7, 30, 70, 300, 700, 3 * SECOND, 7 * SECOND, 20 * SECOND, 45 * SECOND, 3 * MINUTE, 7 * MINUTE)
DURATIONS += (
    15 * MINUTE,
    20 * MINUTE,
    45 * MINUTE,
    3 * HOUR,
    4 * HOUR,
    8 * HOUR,
    18 * HOUR,
    4 * DAY,
    10 * DAY,
    21 * DAY,
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to places on one axis; `ticks` are (value, label)."""

    place: Callable[[float], float]
    ticks: Sequence[tuple[float, str]]


def linear(top: float, start: float, end: float, label: Callable[[float], str]) -> Scale:
    """From 0 to a round number at or above `top`."""
    step = _round_step(max(top, 1e-9) / 4)
    last = step * math.ceil(max(top, 1e-9) / step - 1e-9)
    ticks = [(step * i, label(step * i)) for i in range(round(last / step) + 1)]
    return Scale(lambda value: start + (end - start) * value / last, ticks)


def logarithmic_duration(low_ms: float, high_ms: float, start: float, end: float) -> Scale:
    low_ms = max(low_ms, 1)
    high_ms = max(high_ms, low_ms * 2)
    width = math.log(high_ms / low_ms)

    def place(ms: float) -> float:
        return start + (end - start) * math.log(max(ms, low_ms) / low_ms) / width

    kept: list[int] = []
    for ms in DURATIONS:
        if low_ms <= ms <= high_ms and all(abs(place(ms) - place(other)) >= TICK_GAP for other in kept):
            kept.append(ms)
    return Scale(place, [(ms, words.duration(ms)) for ms in sorted(kept)])


def time(low_ms: float, high_ms: float, start: float, end: float) -> Scale:
    span = max(high_ms - low_ms, 1)
    step = next((step for step in TIME_STEPS if span / step <= MOST_TICKS), None)
    if step is None:
        ticks = _months(low_ms, high_ms)
    else:
        first = math.ceil(low_ms / step) * step
        ticks = [(at, moment(at, step)) for at in range(int(first), int(high_ms) + 1, step)]
    return Scale(lambda at: start + (end - start) * (at - low_ms) / span, ticks)


def _months(low_ms: float, high_ms: float) -> list[tuple[float, str]]:
    """Ticks at the first of some months; January goes by its year."""
    span = (high_ms - low_ms) / MONTH
    step = next((step for step in MONTH_STEPS if span / step <= MOST_TICKS), MONTH_STEPS[-1])
    ticks = []
    for number in range(0, 12 * MAXYEAR, step):
        at = datetime(1 + number // 12, 1 + number % 12, 1, tzinfo=UTC)
        at_ms = (at - EPOCH) / timedelta(milliseconds=1)
        if low_ms <= at_ms <= high_ms:
            ticks.append((at_ms, f"{at:%Y}" if at.month == 1 else f"{at:%b}"))
    return ticks


def moment(at_ms: float, step_ms: int) -> str:
    """As much of a date and time (UTC) as tells two of them apart that are a step apart."""
    at = _date(at_ms)
    if at is None:
        return "?"
    if step_ms >= DAY or (step_ms >= MINUTE and at.hour == at.minute == 0):
        return f"{at.day} {at:%b}"
    if step_ms >= MINUTE:
        return f"{at:%H:%M}"
    if step_ms >= SECOND:
        return f"{at:%H:%M:%S}"
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def day(at_ms: float) -> str:
    """`2 Mar 2026`."""
    at = _date(at_ms)
    return "?" if at is None else f"{at.day} {at:%b} {at.year}"


def stamp(at_ms: float, step_ms: int) -> str:
    """`2 Mar 2026` or `2 Mar 2026 14:30`: a moment that stands by itself."""
    said = moment(at_ms, step_ms)
    return f"{day(at_ms)} {said}" if ":" in said else day(at_ms)


def _date(at_ms: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def compact(number: float) -> str:
    """`1.5 k`, `20 M`: a count on an axis."""
    for size, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{name}"
    return f"{number:.3g}"


def element(name: str, text: str = "", **attributes: object) -> str:
    """An element; `class_` is the class, underscores in other names become hyphens."""
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{said}>{text}</{name}>" if text else f"<{name}{said}/>"


def label(x: float, y: float, words: str, class_: str = "tick", anchor: str = "middle") -> str:
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def path(points: Sequence[tuple[float, float]], class_: str) -> str:
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=class_)


def axes(x: Scale, y: Scale, height: int = HEIGHT) -> str:
    """Horizontal lines with their values, and the ticks below."""
    parts = []
    for value, words_ in y.ticks:
        at = y.place(value)
        parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid" if value else "base"))
        parts.append(label(LEFT - 8, at + 4, words_, anchor="end"))
    for value, words_ in x.ticks:
        at = x.place(value)
        parts.append(element("line", x1=at, x2=at, y1=height - BOTTOM, y2=height - BOTTOM + 4, class_="base"))
        parts.append(label(at, height - BOTTOM + 20, words_))
    return "".join(parts)


def picture(inside: str, says: str, height: int = HEIGHT) -> str:
    """The whole drawing; `says` is what someone who cannot see it is told."""
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(says)}">{inside}</svg>'


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(nice for nice in (1, 2, 2.5, 5, 10) if nice * power >= rough * (1 - 1e-9))


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))
