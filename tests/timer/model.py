"""What a timer does, said again in the shortest way that could be right: a dictionary of deadlines and a sort."""

from __future__ import annotations

from dataclasses import dataclass, field

FOREVER_MS = 2**63 - 1


@dataclass
class TimerModel:
    tick_ms: int
    now_ms: int
    waiting: dict[int, int] = field(default_factory=dict)
    cancelled: int = 0
    fired: int = 0

    def add(self, name: int, delay_ms: int) -> list[int]:
        """Returns what runs at once."""
        self.waiting.pop(name, None)
        deadline_ms = min(self.now_ms + delay_ms, FOREVER_MS)
        if deadline_ms <= self.now_ms:
            self.fired += 1
            return [name]
        self.waiting[name] = deadline_ms
        return []

    def cancel(self, name: int) -> bool:
        waited = self.waiting.pop(name, None) is not None
        self.cancelled += waited
        return waited

    def advance(self, ms: int) -> list[tuple[int, set[int]]]:
        """Moves the clock; returns what runs, as (tick, names) in the order of ticks. Within a tick, any order."""
        self.now_ms += ms
        ticks: dict[int, set[int]] = {}
        for name, deadline_ms in list(self.waiting.items()):
            tick = -(-deadline_ms // self.tick_ms)
            if tick <= self.now_ms // self.tick_ms:
                del self.waiting[name]
                self.fired += 1
                ticks.setdefault(tick, set()).add(name)
        return sorted(ticks.items())
