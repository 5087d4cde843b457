"""What an operation waits for, in words a person can use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dwell.ledger.key import Key
    from dwell.ledger.operation import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedState:
    """One need: what it asks for, where its key stands, and since when it is met."""

    key: str
    level: int | None  # asked for; None: a signal
    key_level: int | None  # where the key stands
    met_since_ms: int | None  # None: not met yet; with a volume, when the key's excess last grew


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The state of one operation that waits."""

    op_id: str
    submitted_at_ms: int
    deadline_ms: int
    needs: tuple[NeedState, ...]
    required: int | None  # so many needs must be met; None with a volume
    volume: int | None
    volume_reached: int | None  # the sum so far; None without a volume

    def __str__(self) -> str:
        met = [need.key for need in self.needs if need.met_since_ms is not None]
        open_ = [need.key for need in self.needs if need.met_since_ms is None]
        if self.volume is not None:
            progress = f"volume {self.volume_reached} of {self.volume}"
        else:
            progress = f"{len(met)} of {self.required} needs met"
        return (
            f"{self.op_id}: waiting since {self.submitted_at_ms} until {self.deadline_ms}, {progress}; "
            f"met {met}, not met {open_}"
        )


def explain(operation: Operation, keys: Mapping[str, Key]) -> Explanation:
    """Read the state of an operation; whoever drives the engine must keep it still meanwhile."""
    volume = operation.volume
    needs = []
    reached = 0
    for place, need in enumerate(operation.needs):
        name, level = str(need.key), need.level  # never null: it was admitted
        key = keys.get(name)
        key_level = None if key is None or not key.has_level else key.level
        if volume is None:
            since_ms = operation.met_since(place)
        else:
            excess = 0 if key_level is None else max(0, key_level - (level or 0))
            since_ms = key.rose_at if key is not None and excess else None
            reached += excess
        needs.append(NeedState(key=name, level=level, key_level=key_level, met_since_ms=since_ms))
    return Explanation(
        op_id=operation.op_id,
        submitted_at_ms=operation.submitted_at_ms,
        deadline_ms=operation.deadline_ms,
        needs=tuple(needs),
        required=None if volume is not None else operation.quorum or len(operation.needs),
        volume=volume,
        volume_reached=None if volume is None else reached,
    )
