# cython: annotation_typing=False, boundscheck=False, wraparound=False
"""What is known of a key, and who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.ledger.heap import TOLERATED, Heap
from dwell.ledger.reason import BEFORE_ALL

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]

    from dwell.ledger.operation import Operation
else:
    from dwell.ledger import directive as cython


@cython.no_gc
@cython.cclass
class Key:
    __slots__ = ("dead", "has_level", "level", "levels", "name", "rose_at", "seen_at", "signal", "signals")

    name: str
    has_level: bool
    level: int  # 0 without one
    rose_at: int  # when the level last rose
    seen_at: int  # when the last event came
    levels: Heap | None  # who waits for a level, by that level
    signal: Operation | None  # who waits for the next event: usually one, so the first needs no list
    signals: list[Operation] | None  # the others
    dead: int  # of these two, how many wait no more

    def watch_signal(self, op: Operation) -> None:
        """Have the operation wait for the next event."""
        if self.signal is None:
            self.signal = op
        elif self.signals is None:
            self.signals = [op]
        else:
            self.signals.append(op)

    def watch_level(self, level: int, op: Operation) -> None:
        if self.levels is None:
            self.levels = Heap()
        self.levels.push(level, op)

    def bury_signal(self) -> None:
        """Count one who waits for the next event as dead; where these outnumber the living keep only the living."""
        self.dead += 1
        if 2 * self.dead > self.count_signals() + TOLERATED:
            living = [op for op in (self.signal, *(self.signals or ())) if op is not None and op.outcome is None]
            self.signal = living[0] if living else None
            self.signals = living[1:] or None
            self.dead = 0

    def bury_level(self) -> None:
        """Count one who waits for a level as dead."""
        assert self.levels is not None
        self.levels.bury(self.name)

    def is_idle(self) -> bool:
        if self.levels is not None and len(self.levels) > self.levels.dead:
            return False
        return self.count_signals() == self.dead

    def count_signals(self) -> int:
        if self.signal is None:
            return 0
        return 1 if self.signals is None else 1 + len(self.signals)


def make_key(name: str) -> Key:
    key = Key.__new__(Key)
    key.name = name
    key.has_level = False
    key.level = 0
    key.rose_at = key.seen_at = BEFORE_ALL
    key.levels = None
    key.signal = None
    key.signals = None
    key.dead = 0
    return key
