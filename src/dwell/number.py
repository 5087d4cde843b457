"""Whole numbers: what counts as one, and how two of them are added without running over 64 bits."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import index
from reprlib import repr as shortened
from typing import SupportsIndex

from dwell.errors import InvalidArgument, InvalidType

# The largest and the smallest time of a 64-bit clock. Times beyond them saturate: a task that is due after `FOREVER_MS`
# never runs, but its deadline does not wrap around into the past.
FOREVER_MS = 2**63 - 1
LONG_AGO_MS = -(2**63)


def whole_number(name: str, value: SupportsIndex) -> int:
    """`value` as an int of 64 bits; larger ones saturate. Booleans, floats and strings raise `InvalidType`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        unit = " of milliseconds" if name.endswith("_ms") else ""
        raise InvalidType(f"{name} must be an int{unit}, not {type(value).__name__}: {shortened(value)}")
    return max(LONG_AGO_MS, min(index(value), FOREVER_MS))


def at_least(name: str, value: SupportsIndex, least: int) -> int:
    """`value` as an int of at least `least`, or `InvalidArgument`."""
    number = whole_number(name, value)
    if number < least:
        raise InvalidArgument(f"{name} must be at least {least}, not {number}")
    return number


def between(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """`value` as an int of at least `least` and at most `most`, or `InvalidArgument`."""
    number = at_least(name, value, least)
    if number > most:
        raise InvalidArgument(f"{name} must be at most {most}, not {number}")
    return number


def later(time_ms: int, delay_ms: int) -> int:
    """`time_ms + delay_ms`, at most `FOREVER_MS`. A negative delay counts as none."""
    return min(time_ms + max(0, delay_ms), FOREVER_MS)


def int64s(name: str, values: object) -> memoryview[int]:
    """`values` as a flat view of signed 64-bit integers: of a buffer without copying, of a sequence of ints a copy.

    A buffer is an `array('q')`, a `memoryview` of int64 or a numpy array of int64. Anything else raises `InvalidType`.
    """
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes, bytearray, memoryview, array)):
        return memoryview(array("q", [whole_number(f"{name}[{place}]", value) for place, value in enumerate(values)]))
    try:
        view = memoryview(values)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidType(
            f"{name} must be a sequence of ints or a buffer of int64 such as array('q'), "
            f"not {type(values).__name__}: {shortened(values)}"
        ) from None
    if view.itemsize != 8 or view.format not in ("q", "l") or view.ndim != 1 or not view.contiguous:
        raise InvalidType(f"{name} must be a flat buffer of int64, not {view.ndim}-d of format {view.format!r}")
    return view
