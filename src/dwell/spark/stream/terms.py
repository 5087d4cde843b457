"""What a streaming settlement goes by, in milliseconds; the same for all shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    shards: int
    lateness_ms: int
    idle_after_ms: int | None
    remember_ms: int
    forget_keys_after_ms: int | None
