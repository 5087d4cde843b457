"""The watermark: the moment before which everything is known.

Each shard of the first stage keeps the same clock and moves it by the same figures, so all agree on the watermark
without talking to each other. In each micro-batch:

    late      a row with a time before the watermark as it stood when the batch began
    decided   everything that happened before the watermark as it stands after the batch's own rows

A source (operations, events) holds the watermark at its greatest time so far less the lateness; the slower source
counts. A source that has been quiet for `idle_after` holds it at the wall clock less `idle_after`, whichever is later.
Rows that say nothing of time (rejected operations, events without key or time) do not break a silence: a sender of
nothing else would hold up the deadlines of all others for ever.

Quiet means quiet while the query was looking: where it was down, the count starts anew, so that a restart meets its
backlog as rows, not as silence. It was down if two beats of the wall clock are further apart than `idle_after`, and
than slow micro-batches explain: more than `SLOWER` times as far as any two within the last `idle_after` before them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dwell.contract.time_range import MIN_MS

# Before all times: nothing is late and nothing is decided.
START = MIN_MS - 1

# From one micro-batch to the next they may take so many times as long.
SLOWER = 3

OPERATIONS, EVENTS = 0, 1
SOURCES = (OPERATIONS, EVENTS)


@dataclass(slots=True, kw_only=True)
class Beat:
    """What one micro-batch says about time. `rows` counts usable ones only."""

    now_ms: int | None = None
    rows: list[int] = field(default_factory=lambda: [0, 0])
    latest_ms: list[int | None] = field(default_factory=lambda: [None, None])

    def heard(self, now_ms: int | None) -> None:
        self.now_ms = _later(self.now_ms, now_ms)

    def saw(self, source: int, rows: int, latest_ms: int | None) -> None:
        self.rows[source] += rows
        self.latest_ms[source] = _later(self.latest_ms[source], latest_ms)


@dataclass(slots=True, kw_only=True)
class Clock:
    watermark_ms: int = START
    now_ms: int | None = None
    latest_ms: list[int | None] = field(default_factory=lambda: [None, None])
    # Wall clock at the last rows of each source, or when it was first missed.
    heard_ms: list[int | None] = field(default_factory=lambda: [None, None])
    # The longest gap between two beats of late, and how long ago it ended.
    pace_ms: int = 0
    paced_ago_ms: int = 0

    def advance(self, beat: Beat, *, lateness_ms: int, idle_after_ms: int | None) -> None:
        """Take in a micro-batch; the watermark never falls."""
        missed = self._beats(beat.now_ms, idle_after_ms)
        now_ms = self.now_ms
        marks: list[int] = []
        for source in SOURCES:
            latest_ms = self.latest_ms[source] = _later(self.latest_ms[source], beat.latest_ms[source])
            heard_ms = self.heard_ms[source]
            # A heartbeat before the last rows: the wall clock was set back.
            if missed or beat.rows[source] or heard_ms is None or (now_ms is not None and now_ms < heard_ms):
                self.heard_ms[source] = heard_ms = now_ms
            mark = START if latest_ms is None else latest_ms - lateness_ms
            if (
                idle_after_ms is not None
                and not beat.rows[source]
                and now_ms is not None
                and heard_ms is not None
                and now_ms - heard_ms >= idle_after_ms
            ):
                mark = max(mark, now_ms - idle_after_ms)
            marks.append(mark)
        self.watermark_ms = max(self.watermark_ms, min(marks))

    def _beats(self, now_ms: int | None, idle_after_ms: int | None) -> bool:
        """Move the wall clock on. Was the query down meanwhile?"""
        before_ms = self.now_ms
        if now_ms is None:
            return False
        self.now_ms = now_ms
        if before_ms is None or idle_after_ms is None:
            return False
        gap_ms = now_ms - before_ms
        missed = gap_ms > max(idle_after_ms, SLOWER * self.pace_ms)
        self.paced_ago_ms += gap_ms
        if gap_ms < 0 or gap_ms >= self.pace_ms or self.paced_ago_ms >= idle_after_ms:
            self.pace_ms, self.paced_ago_ms = max(gap_ms, 0), 0
        return missed


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
