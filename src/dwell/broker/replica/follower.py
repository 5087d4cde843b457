"""What a leader knows of one follower: how far it has fetched, and when it last had everything."""

from __future__ import annotations

from typing import final

# Before its first fetch nothing is known.
UNKNOWN = -1


@final
class Follower:
    __slots__ = ("caught_up_ms", "fetched_ms", "leader_end_at_fetch", "log_end", "log_start", "waiting")

    def __init__(self, now_ms: int, log_end: int = UNKNOWN) -> None:
        self.log_end = log_end
        self.log_start = UNKNOWN
        # The last moment at which the follower had everything that the leader had.
        self.caught_up_ms = now_ms
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = 0
        # Its fetch is parked at the leader's log end: it is caught up at every moment until the next append.
        self.waiting = False

    def fetched(self, offset: int, log_start: int, leader_end: int, now_ms: int) -> None:
        """Note a fetch at `offset`, which says that the follower has everything before it."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end_at_fetch:
            # It has what the leader had at the fetch before: so it was caught up then.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end = offset
        self.log_start = log_start
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = leader_end

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.log_end >= leader_end or self.waiting or now_ms - self.caught_up_ms <= max_lag_ms
