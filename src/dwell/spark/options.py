"""How a settlement runs, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleOptions:
    """Nothing here changes an outcome. Tables need no option; streams add theirs here."""
