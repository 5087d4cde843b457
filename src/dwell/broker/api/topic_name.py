"""Which names a topic may have."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_LENGTH = 249
LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def problem(name: str | None) -> str | None:
    """Why `name` cannot be a topic's name, in words; None if it can."""
    if not name:
        return "a topic needs a name"
    if name in (".", ".."):
        return f"{name!r} cannot be a topic's name"
    if len(name) > MAX_LENGTH:
        return f"a topic's name has at most {MAX_LENGTH} characters, not {len(name)}"
    if LEGAL.fullmatch(name) is None:
        return f"{name!r} has characters other than letters, digits, '.', '_' and '-'"
    return None


def twin(name: str, others: Iterable[str]) -> str | None:
    """A topic whose name is the same but for '.' and '_': Kafka's metrics could not tell the two apart."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next((other for other in others if other != name and other.replace(".", "_") == folded), None)
