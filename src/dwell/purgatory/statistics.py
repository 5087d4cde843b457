"""What a purgatory tells about itself."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal, final

from dwell.histogram import PLACES, place_of

Outcome = Literal["completed", "expired", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgatoryStatistics:
    """A snapshot. `watched` and `delayed` are what waits now; the other counts only grow.

    `completed` counts operations completed in time, `expired` those whose time ran out, `cancelled` those taken out
    (once each, even if several of their keys are cancelled), `purged` the empty watches that purges removed.

    `waits` counts, by powers of two (`dwell.histogram.BOUNDS`, in milliseconds), how long completed and expired
    operations waited, and `waited_ms` is the sum. `lateness` and `late_ms` say how long after their deadline expired
    operations expired.
    """

    name: str
    watched: int
    delayed: int
    completed: int
    expired: int
    cancelled: int
    purged: int
    waits: tuple[int, ...]
    waited_ms: int
    lateness: tuple[int, ...]
    late_ms: int


@final
class Counts:
    """What became of operations so far. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._completed = self._expired = self._cancelled = self._purged = 0
        self._waits, self._waited_ms = [0] * PLACES, 0
        self._lateness, self._late_ms = [0] * PLACES, 0

    def count_completed(self, waited_ms: int) -> None:
        with self._lock:
            self._completed += 1
            self._waits[place_of(waited_ms)] += 1
            self._waited_ms += waited_ms

    def count_expired(self, waited_ms: int, late_ms: int) -> None:
        with self._lock:
            self._expired += 1
            self._waits[place_of(waited_ms)] += 1
            self._waited_ms += waited_ms
            self._lateness[place_of(late_ms)] += 1
            self._late_ms += late_ms

    def count_cancelled(self) -> None:
        with self._lock:
            self._cancelled += 1

    def count_purged(self, watches: int) -> None:
        with self._lock:
            self._purged += watches

    def snapshot(self, *, name: str, watched: int, delayed: int) -> PurgatoryStatistics:
        with self._lock:
            return PurgatoryStatistics(
                name=name,
                watched=watched,
                delayed=delayed,
                completed=self._completed,
                expired=self._expired,
                cancelled=self._cancelled,
                purged=self._purged,
                waits=tuple(self._waits),
                waited_ms=self._waited_ms,
                lateness=tuple(self._lateness),
                late_ms=self._late_ms,
            )
