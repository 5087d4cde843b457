"""What a streaming settlement goes by, in milliseconds; the same for all shards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dwell.spark.options import SettleOptions

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    shards: int
    lateness_ms: int
    idle_after_ms: int | None
    remember_ms: int
    forget_keys_after_ms: int | None
    late_events: bool = False

    @classmethod
    def of(cls, options: SettleOptions) -> Terms:
        remember = options.lateness if options.remember is None else options.remember
        idle, forget = options.idle_after, options.forget_keys_after
        return cls(
            shards=options.shards,
            lateness_ms=options.lateness // _MS,
            idle_after_ms=None if idle is None else idle // _MS,
            remember_ms=remember // _MS,
            forget_keys_after_ms=None if forget is None else forget // _MS,
            late_events=options.late_events,
        )
