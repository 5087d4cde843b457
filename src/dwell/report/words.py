"""Numbers and times the way people say them."""

from __future__ import annotations

from itertools import pairwise

# (milliseconds, one letter or two): the largest unit comes first.
UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def count(number: int) -> str:
    return f"{number:,}"


def share(part: float, whole: float) -> str:
    """A percentage with as many digits as it takes to tell it from 0 and from 100."""
    if not whole:
        return "none"
    percent = 100 * part / whole
    for digits in (1, 2, 3, 4):
        text = f"{percent:.{digits}f}"
        if part in (0, whole) or float(text) not in (0.0, 100.0):
            return f"{text} %"
    return "> 99.9999 %" if percent > 50 else "< 0.0001 %"


def duration(ms: float) -> str:
    """`850 ms`, `4.2 s`, `3 min 20 s`, `2 d 4 h`: at most two units, the smaller one rounded."""
    if ms < 1000:
        return f"{round(ms)} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    finest = next((smaller for (unit, _), (smaller, _) in pairwise(UNITS) if ms >= unit), 1000)
    left = round(ms / finest) * finest
    for (unit, name), (smaller, smaller_name) in pairwise(UNITS):
        if left >= unit:
            rest = left % unit // smaller
            return f"{left // unit} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{left // 1000} s"
