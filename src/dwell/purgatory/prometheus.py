"""Purgatories for Prometheus. Needs the extra `dwell[metrics]`.

    from prometheus_client import REGISTRY
    REGISTRY.register(PurgatoryCollector(produce, fetch))

Nothing is counted here: each scrape takes the purgatories' own `statistics()`, which cost the operations nothing extra.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, final

from dwell.errors import MissingExtra
from dwell.histogram import BOUNDS
from dwell.purgatory.statistics import PurgatoryStatistics

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise MissingExtra("the Prometheus collector needs prometheus-client: pip install 'dwell[metrics]'") from missing

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

# name, kind, the field of PurgatoryStatistics, help
FIGURES: tuple[tuple[str, Any, str, str], ...] = (
    ("size", GaugeMetricFamily, "watched", "Watches on the lists of all keys, also of operations just completed"),
    ("delayed", GaugeMetricFamily, "delayed", "Operations that wait for their time"),
    ("completed", CounterMetricFamily, "completed", "Operations completed before their time ran out"),
    ("expired", CounterMetricFamily, "expired", "Operations whose time ran out"),
    ("cancelled", CounterMetricFamily, "cancelled", "Operations taken out without completing"),
    ("purged", CounterMetricFamily, "purged", "Watches of completed operations that purges removed"),
)
# name, the counts by power of two, their sum in milliseconds, help
HISTOGRAMS: tuple[tuple[str, str, str, str], ...] = (
    ("wait_seconds", "waits", "waited_ms", "How long completed and expired operations waited"),
    ("lateness_seconds", "lateness", "late_ms", "How long after its deadline an operation expired"),
)


class HasStatistics(Protocol):
    def statistics(self) -> PurgatoryStatistics: ...


@final
class PurgatoryCollector(Collector):
    """Shows purgatories as `dwell_purgatory_*`, each under the label `purgatory` with its name."""

    def __init__(self, *purgatories: HasStatistics) -> None:
        self._purgatories = list(purgatories)

    def add(self, purgatory: HasStatistics) -> None:
        """Show one more from now on."""
        self._purgatories.append(purgatory)

    def collect(self) -> Iterable[Metric]:
        snapshots = [purgatory.statistics() for purgatory in self._purgatories]
        for name, family, field, words in FIGURES:
            metric = family(f"dwell_purgatory_{name}", words, labels=["purgatory"])
            for snapshot in snapshots:
                metric.add_metric([snapshot.name], getattr(snapshot, field))
            yield metric
        for name, field, total_ms, words in HISTOGRAMS:
            histogram = HistogramMetricFamily(f"dwell_purgatory_{name}", words, labels=["purgatory"])
            for snapshot in snapshots:
                histogram.add_metric(
                    [snapshot.name],
                    buckets=list(_buckets(getattr(snapshot, field))),
                    sum_value=getattr(snapshot, total_ms) / 1000,
                )
            yield histogram


def _buckets(counts: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    bounds = [*(str(bound_ms / 1000) for bound_ms in BOUNDS), "+Inf"]
    return zip(bounds, accumulate(counts), strict=True)
