"""What becomes of the operations that still wait when a purgatory is closed."""

from __future__ import annotations

from typing import Literal

from dwell.errors import InvalidArgument

ClosePolicy = Literal["cancel", "expire", "leave"]
"""`"cancel"`: they are taken out and never complete. `"expire"`: each expires at once, in the closing thread.
`"leave"`: their clocks stop, and their keys can still complete them."""


def check_policy(policy: str) -> None:
    """Raise `InvalidArgument` if `policy` is none."""
    if policy not in ("cancel", "expire", "leave"):
        raise InvalidArgument(f"policy must be 'cancel', 'expire' or 'leave', not {policy!r}")
