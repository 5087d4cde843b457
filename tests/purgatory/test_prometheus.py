"""What Prometheus sees of a purgatory."""

from __future__ import annotations

import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from dwell.errors import MissingExtra
from dwell.purgatory import Purgatory
from dwell.purgatory.prometheus import PurgatoryCollector
from dwell.testing import ManualClock
from tests.builds import Build
from tests.purgatory.operation import probe_class


def test_a_scrape_shows_every_figure_under_the_purgatorys_name(
    build: Build, purgatory: Purgatory, clock: ManualClock
) -> None:
    registry = CollectorRegistry()
    registry.register(PurgatoryCollector(purgatory))
    for delay_ms in (10, 10, 10, 1000, 1000):
        purgatory.try_complete_else_watch(probe_class(build)(delay_ms), ["a", "b"])
    clock.advance(12)
    purgatory.advance()
    ready = probe_class(build)(1000)
    ready.ready = True
    purgatory.try_complete_else_watch(ready, ["a"])
    purgatory.cancel_for_key("a")
    purgatory.purge()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"dwell_purgatory_{name}", {"purgatory": "test", **labels})

    assert value("size") == 2
    assert value("delayed") == 0
    assert value("completed_total") == 1
    assert value("expired_total") == 3
    assert value("cancelled_total") == 2
    assert value("purged_total") == 3
    assert value("wait_seconds_count") == 4
    assert value("wait_seconds_sum") == pytest.approx(0.036)
    assert value("wait_seconds_bucket", le="0.007") == 1
    assert value("wait_seconds_bucket", le="0.015") == 4
    assert value("lateness_seconds_bucket", le="0.001") == 0
    assert value("lateness_seconds_bucket", le="0.003") == 3
    assert value("lateness_seconds_sum") == pytest.approx(0.006)


def test_purgatories_can_be_added_and_are_told_apart_by_name(build: Build, purgatory: Purgatory) -> None:
    registry = CollectorRegistry()
    collector = PurgatoryCollector()
    registry.register(collector)
    collector.add(purgatory)
    with build.Purgatory("other", reaper=False) as other:
        collector.add(other)
        page = generate_latest(registry).decode()
    assert 'dwell_purgatory_delayed{purgatory="test"} 0.0' in page
    assert 'dwell_purgatory_delayed{purgatory="other"} 0.0' in page


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.delitem(sys.modules, "dwell.purgatory.prometheus")
    with pytest.raises(MissingExtra, match=r"pip install 'dwell\[metrics\]'"):
        import dwell.purgatory.prometheus  # noqa: F401
