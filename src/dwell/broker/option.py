"""What a cluster is made of, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from dwell.errors import InvalidArgument

MIB = 1024 * 1024
MAX_BROKERS = 100
KINDS_THAT_CAN_BE_REAL = ("produce", "fetch", "topic", "delete_records", "elect_leader")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See `Cluster` for what each of them does."""

    brokers: int = 3
    configs: Mapping[str, object] = field(default_factory=dict)
    host: str = "127.0.0.1"
    # One per broker; empty until the listeners are bound.
    ports: tuple[int, ...] = ()
    advertised_host: str | None = None
    racks: Sequence[str] = ()
    real: tuple[str, ...] = ("fetch",)
    # The wall-clock time at the start.
    epoch_ms: int = 0
    seed: int = 0
    session_ms: int = 0
    memory_bytes: int = 1024 * MIB
    max_request_bytes: int = 100 * MIB
    max_connections: int = 10_000

    def __post_init__(self) -> None:
        _between("brokers", self.brokers, 1, MAX_BROKERS)
        for name in ("session_ms", "epoch_ms"):
            _between(name, getattr(self, name), 0, 2**63 - 1)
        for name in ("memory_bytes", "max_request_bytes", "max_connections"):
            _between(name, getattr(self, name), 1, 2**63 - 1)
        _between("max_request_bytes", self.max_request_bytes, 1, 2**31 - 1)
        if self.racks and len(self.racks) != self.brokers:
            raise InvalidArgument(f"racks must name one rack per broker: {self.brokers}, not {len(self.racks)}")
        for kind in self.real:
            if kind not in KINDS_THAT_CAN_BE_REAL:
                raise InvalidArgument(
                    f"real must name waits of clients ({', '.join(KINDS_THAT_CAN_BE_REAL)}), not {kind!r}"
                )


def _between(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidArgument(f"{name} must be a whole number from {least:,} to {most:,}, not {value!r}")
