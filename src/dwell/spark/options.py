"""How a settlement runs, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dwell.errors import InvalidArgument, InvalidType


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleOptions:
    """Tables need no option. For streams:

    lateness            a row may be this much older than the newest row before it, by event time. Later events are set
                        aside, later operations rejected.
    idle_after          an input quiet for this long by the wall clock no longer holds up the other or the deadlines.
                        Rejected operations and events without key or time count as quiet. None: only rows move time on.
    shards              into how many parts the state is cut; cannot change over a checkpoint.
    remember            how long after its outcome an op_id is known, so that a repeat or another operation under it is
                        seen as such. None: as long as `lateness`.
    forget_keys_after   a key without events for this long, by event time, loses its level. None: levels are kept.
    late_events         add a column `late`, and rows for each event that came too late, with the event in `late`: one
                        with nothing else, and one for each outcome it would have changed, which stands in the other
                        columns. Outcomes have a null in `late`.
    """

    lateness: timedelta = timedelta(seconds=10)
    idle_after: timedelta | None = timedelta(minutes=1)
    shards: int = 16
    remember: timedelta | None = None
    forget_keys_after: timedelta | None = None
    late_events: bool = False

    def __post_init__(self) -> None:
        for name in ("lateness", "idle_after", "remember", "forget_keys_after"):
            value = getattr(self, name)
            if value is None and name != "lateness":
                continue
            if not isinstance(value, timedelta):
                raise InvalidType(f"{name} must be a timedelta, not {value!r}")
            if value < timedelta(0):
                raise InvalidArgument(f"{name} must not be negative, it is {value}")
        if not isinstance(self.shards, int) or isinstance(self.shards, bool):
            raise InvalidType(f"shards must be an integer, not {self.shards!r}")
        if not 1 <= self.shards <= 4096:
            raise InvalidArgument(f"shards must be between 1 and 4096, it is {self.shards}")
