"""What waits for what, as values to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from dwell.broker.delayed.request import DelayedRequest


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A client's request that waits in a purgatory. `str()` is one line."""

    # The purgatory: produce, fetch, topic, delete_records, elect_leader.
    kind: str
    api: str
    version: int
    broker: int
    client_id: str | None
    # Partitions or topics whose changes can complete it.
    keys: tuple[str, ...]
    since_ms: int
    left_ms: int
    # What is missing, in words.
    unmet: str
    # The request's number in `cluster.requests()`.
    request: int

    @classmethod
    def of(cls, operation: DelayedRequest) -> Waiting:
        request = operation.request
        since_ms = request.broker.purgatory(operation.kind).clock.now_ms() - operation.started_ms
        return cls(
            kind=operation.kind,
            api=request.api.name,
            version=request.version,
            broker=request.broker.id,
            client_id=request.client_id,
            keys=operation.key_names(),
            since_ms=since_ms,
            left_ms=max(0, operation.delay_ms - since_ms),
            unmet=operation.unmet(),
            request=request.number,
        )

    def __str__(self) -> str:
        return (
            f"{self.api} v{self.version} of {self.client_id or 'nobody'}, broker {self.broker}, "
            f"since {self.since_ms:,} ms, {self.left_ms:,} ms left: {self.unmet}"
        )
