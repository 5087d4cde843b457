"""The figures of a running settlement: printed, or exported to Prometheus.

Every micro-batch reports, for each settlement in the query, what it decided (completed, expired, rejected), how many
operations are pending, how many events were late or without key or time (aside), and the watermark. A listener adds
what Spark says of the state. In the progress report a settlement has a name (`dwell-7`) that is another one after each
start, so read the report by `Figures.of`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from pyspark.sql.streaming.listener import StreamingQueryListener

from dwell.errors import MissingExtra
from dwell.spark.stream.plan import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One settlement in one micro-batch of a query.

    `settlement` is 0 where the query has but one; several are numbered in the order in which `settle` was called.
    `lag_ms` is how far the watermark is behind the wall clock. `state_bytes` and `batch_ms` are of the whole query.
    """

    query: str
    settlement: int = 0
    batch: int
    completed: int
    expired: int
    rejected: int
    pending: int
    late: int
    aside: int
    watermark_ms: int
    lag_ms: int
    state_bytes: int
    batch_ms: int

    @classmethod
    def of(cls, progress: StreamingQueryProgress) -> list[Figures]:
        """For each settlement in the query; none if there is none, or if the micro-batch had no rows at all."""
        metrics = progress.observedMetrics
        numbers = sorted(int(name[len(METRICS) :]) for name in metrics if re.fullmatch(rf"{METRICS}\d+", name))
        began = datetime.fromisoformat(progress.timestamp)
        seen: list[dict[str, Any]] = [metrics[f"{METRICS}{number}"].asDict() for number in numbers]
        return [
            cls(
                query=progress.name or str(progress.id),
                settlement=settlement,
                batch=progress.batchId,
                **figures,
                lag_ms=int(began.timestamp() * 1000) - figures["watermark_ms"],
                state_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
                batch_ms=progress.durationMs.get("triggerExecution", 0),
            )
            for settlement, figures in enumerate(seen)
            if figures["watermark_ms"] is not None
        ]


class FiguresListener(StreamingQueryListener):
    """Calls back with the figures of each micro-batch: `spark.streams.addListener(FiguresListener(print))`."""

    def __init__(self, callback: Callable[[Figures], object]) -> None:
        self._callback = callback

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for figures in Figures.of(event.progress):
            self._callback(figures)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass


def print_figures(stream: TextIO | None = None) -> FiguresListener:
    """A line for each micro-batch and settlement."""

    def line(figures: Figures) -> None:
        said = " ".join(f"{name}={value}" for name, value in asdict(figures).items())
        print(said, file=stream or sys.stderr, flush=True)

    return FiguresListener(line)


def export_figures(registry: Any = None) -> FiguresListener:
    """Prometheus metrics `dwell_*`, labelled by query and settlement; needs the extra `dwell[metrics]`.

    Serving them is up to you.
    """
    try:
        from prometheus_client import REGISTRY, Counter, Gauge
    except ImportError as error:
        raise MissingExtra("export_figures needs prometheus-client: pip install 'dwell[metrics]'") from error
    registry = registry or REGISTRY
    counted = {
        name: Counter(
            f"dwell_{name}", f"Operations or events {name} so far", ["query", "settlement"], registry=registry
        )
        for name in ("completed", "expired", "rejected", "late", "aside")
    }
    gauged = {
        name: Gauge(f"dwell_{name}", text, ["query", "settlement"], registry=registry)
        for name, text in (
            ("pending", "Operations that wait"),
            ("lag_ms", "How far the watermark is behind the wall clock"),
            ("state_bytes", "Memory of the state store, as Spark reports it"),
            ("batch_ms", "Length of the last micro-batch"),
        )
    }

    def export(figures: Figures) -> None:
        for name, counter in counted.items():
            counter.labels(figures.query, figures.settlement).inc(getattr(figures, name))
        for name, gauge in gauged.items():
            gauge.labels(figures.query, figures.settlement).set(getattr(figures, name))

    return FiguresListener(export)
