"""A cluster in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from dwell.purgatory import PurgatoryStatistics


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatistics:
    """A snapshot. `requests` only grows; the rest is what is there now."""

    brokers_up: int
    topics: int
    partitions: int
    # Partitions without a leader, and led ones with fewer in-sync replicas than replicas.
    offline_partitions: int
    under_replicated_partitions: int
    # Bytes in the logs; replicas share theirs.
    log_bytes: int
    connections: int
    requests: int
    # Clients' requests that wait, by purgatory.
    waiting: Mapping[str, int]
    purgatories: tuple[PurgatoryStatistics, ...]
