"""A field of a row, by its place.

Compiled code unpacks and indexes plain tuples fast, named tuples slowly; `item.pxd` has what serves it instead.
"""

from __future__ import annotations

from typing import Any


def item(row: Any, place: int) -> Any:
    return row[place]
