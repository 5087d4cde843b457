"""Two snapshots as a screen of text: sizes, rates between the two, lateness, the levels of the wheel."""

from __future__ import annotations

from typing import Any

from dwell.report import words
from dwell.timer import LATENESS_BOUNDS_MS

# Counts that only grow: shown as a rate too. The others stand for themselves.
GROWING = (
    "opened",
    "completed",
    "expired",
    "rejected",
    "cancelled",
    "purged",
    "recorded",
    "repeated",
    "set_aside",
    "fired",
    "cascades",
)
# Those that are shown when they are zero too.
ALWAYS = ("opened", "completed", "expired", "recorded", "fired")
SIZES = ("watched", "delayed", "pending", "keys", "operations")
SHARES = (0.5, 0.99, 0.999)
BAR = 30


def picture(before: dict[str, Any], now: dict[str, Any]) -> str:
    seconds = max(now["at_s"] - before["at_s"], 1e-3)
    parts = [f"pid {now['pid']}, {words.duration(1000 * seconds)} apart"]
    # By place: names may repeat.
    for earlier, source in zip(before["sources"], now["sources"], strict=True):
        parts.append(_source(earlier, source, seconds))
    return "\n\n".join(parts)


def _source(before: dict[str, Any], now: dict[str, Any], seconds: float) -> str:
    said = now["statistics"]
    lines = [f"{now['kind']} {now['name']!r}"]
    lines.append("  " + "   ".join(f"{name} {words.count(said[name])}" for name in SIZES if name in said))
    lines += _rates(before["statistics"], said, seconds)
    lines += _histogram("waited", said.get("waits"))
    lines += _histogram("late", said.get("lateness"))
    timer = now.get("timer")
    if timer is not None:
        lines.append(f"  timer: {words.count(timer['pending'])} pending")
        lines += _rates(before.get("timer", timer), timer, seconds, "    ")
        if "lateness" not in said:
            lines += _histogram("late", timer.get("lateness"))
        lines += _levels(timer["levels"])
    return "\n".join(lines)


def _rates(before: dict[str, Any], now: dict[str, Any], seconds: float, indent: str = "  ") -> list[str]:
    lines = []
    for name in GROWING:
        if name in now and (now[name] or name in ALWAYS):
            rate = round((now[name] - before[name]) / seconds)
            lines.append(f"{indent}{name:<10} {words.count(now[name]):>14} {words.count(rate):>12} /s")
    return lines


def _histogram(name: str, counts: list[int] | None) -> list[str]:
    """The bounds that most kept, from counts by power of two."""
    if not counts or not sum(counts):
        return []
    said = (f"{100 * share:g} % at most {_bound(counts, share)}" for share in SHARES)
    return [f"  {name:<10} {' · '.join(said)}"]


def _bound(counts: list[int], share: float) -> str:
    needed, seen = share * sum(counts), 0
    for count, bound_ms in zip(counts, LATENESS_BOUNDS_MS, strict=False):
        seen += count
        if seen >= needed:
            return words.duration(bound_ms)
    return f"more than {words.duration(LATENESS_BOUNDS_MS[-1])}"


def _levels(levels: list[dict[str, Any]]) -> list[str]:
    most = max((level["tasks"] for level in levels), default=0) or 1
    return [
        f"    a tick of {words.duration(level['tick_ms']):<11} {words.count(level['tasks']):>12} tasks in "
        f"{level['buckets']:>3} buckets  {'█' * round(BAR * level['tasks'] / most)}"
        for level in levels
    ]
