"""What counts as a number of milliseconds."""

from __future__ import annotations

from array import array
from operator import index
from typing import SupportsIndex

from dwell.errors import InvalidArgument, InvalidType

# The largest time a 64-bit clock can show. Deadlines beyond it saturate: such a task never runs, but it does not wrap.
FOREVER_MS = 2**63 - 1
LONG_AGO_MS = -(2**63)

# Buckets a level. More would cost memory for nothing: 20 buckets a level reach 64 bits with 15 levels.
LARGEST_WHEEL = 2**20


def milliseconds(name: str, value: SupportsIndex) -> int:
    """`value` as an int of 64 bits; larger ones saturate. Booleans, floats and strings raise `InvalidType`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidType(f"{name} must be an int of milliseconds, not {type(value).__name__}: {value!r}")
    return max(LONG_AGO_MS, min(index(value), FOREVER_MS))


def at_least(name: str, value: SupportsIndex, least: int) -> int:
    """`value` as an int of at least `least`, or `InvalidArgument`."""
    number = milliseconds(name, value)
    if number < least:
        raise InvalidArgument(f"{name} must be at least {least}, not {number}")
    return number


def between(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """`value` as an int of at least `least` and at most `most`, or `InvalidArgument`."""
    number = at_least(name, value, least)
    if number > most:
        raise InvalidArgument(f"{name} must be at most {most}, not {number}")
    return number


def int64s(name: str, buffer: object) -> array[int] | memoryview[int]:
    """`buffer` as a flat view of signed 64-bit integers, without copying; anything else raises `InvalidType`."""
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidType(f"{name} must be a buffer of int64 such as array('q'), not {buffer!r}") from None
    if view.itemsize != 8 or view.format not in ("q", "l") or view.ndim != 1:
        raise InvalidType(f"{name} must be a flat buffer of int64, not {view.ndim}-d of format {view.format!r}")
    return view
