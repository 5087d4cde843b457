"""What an operation waits for, in words a person can use."""

from __future__ import annotations

from dataclasses import dataclass


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
