"""Kinds of arguments: durations, moments, sizes, pairs."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_ms(text: str) -> int:
    """`30m`, `1.5h`, `250ms`, `1h30m` as milliseconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)", text)
    if not parts or re.sub(r"\d+(?:\.\d+)?\s*(?:ms|min|s|m|h|d|w)|\s", "", text):
        raise ArgumentTypeError(f"{text!r} is not a duration: write 250ms, 30s, 5m, 1h30m or 7d")
    return round(sum(float(number) * UNITS_MS[unit] for number, unit in parts))


def duration(text: str) -> timedelta:
    return timedelta(milliseconds=duration_ms(text))


def moment(text: str) -> datetime:
    """An ISO date or time; UTC where it names no zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time: write 2026-03-01 or 2026-03-01T12:00:00Z") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def millis(at: datetime) -> int:
    """Milliseconds since 1970, cut towards the past, before 1970 too."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def size(text: str) -> int:
    """`200000`, `200_000`, `200k`, `10M`, `1e6`."""
    found = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?(?:e\d+)?)\s*([kM]?)", text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a number of rows: write 200000, 200k or 10M")
    return round(float(found[1].replace("_", "")) * {"": 1, "k": 1000, "M": 1_000_000}[found[2]])


def pair(text: str) -> tuple[str, str]:
    """`name=value`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def share(text: str) -> float:
    """`99.9%` or `0.999`."""
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share: write 99.9% or 0.999")
    return number


def new_place(text: str) -> str:
    """A path that something can be written under and renamed to."""
    if text.strip("/") in ("", ".", "..") or text.rstrip("/").endswith(("/.", "/..")):
        raise ArgumentTypeError(
            f"{text!r} cannot be made or replaced: name a directory of its own, such as out/settled"
        )
    return text.rstrip("/")
