"""Numbers and times the way people say them."""

from __future__ import annotations

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
    """`850 ms`, `4.2 s`, `3 min 20 s`, `2 d 4 h`: at most two units."""
    if ms < 1000:
        return f"{round(ms)} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    left = round(ms / 1000) * 1000
    for i, (unit, name) in enumerate(UNITS):
        if left >= unit:
            text = f"{left // unit} {name}"
            if i + 1 < len(UNITS) and left % unit >= UNITS[i + 1][0]:
                smaller, smaller_name = UNITS[i + 1]
                text += f" {left % unit // smaller} {smaller_name}"
            return text
    raise AssertionError(ms)
