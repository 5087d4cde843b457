"""A program that serves its statistics, and `dwell top` beside it."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest

from dwell import DelayedOperation, Ledger, Need, Purgatory
from dwell.cli.top_picture import picture
from dwell.errors import InvalidArgument, InvalidType
from dwell.serve import serve_statistics
from dwell.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Ran


@pytest.fixture(autouse=True)
def _own_notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


class Never(DelayedOperation):
    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None: ...

    def on_expiration(self) -> None: ...


@pytest.fixture
def purgatory() -> Iterator[Purgatory]:
    with Purgatory("produce", clock=ManualClock(), reaper=False) as made:
        for delay_ms in (5, 500, 50_000):
            made.try_complete_else_watch(Never(delay_ms), ["k"])
        yield made


def test_top_finds_the_program_and_shows_sizes_rates_and_levels(
    dwell: Callable[..., Ran], purgatory: Purgatory
) -> None:
    with Ledger("orders", clock=ManualClock(), reaper=False) as ledger, serve_statistics(purgatory, ledger):
        ledger.open("o", [Need("k")], 100)
        shown = dwell("top", "--once", "--every", "10ms").out
    assert "Purgatory 'produce'\n  watched 3   delayed 3\n" in shown
    assert "a tick of 1 ms                   1 tasks in   1 buckets" in shown
    assert "Ledger 'orders'\n  pending 1" in shown


def test_rates_are_those_of_each_source_though_names_repeat() -> None:
    def snapshot(at_s: float, *opened: int) -> dict[str, Any]:
        sources = [{"kind": "Ledger", "name": "ledger", "statistics": {"opened": n, "repeated": 0}} for n in opened]
        return {"at_s": at_s, "pid": 1, "sources": sources}

    rates = [
        line.split()[-2:] for line in picture(snapshot(10, 0, 500), snapshot(12, 40, 500)).splitlines() if "/s" in line
    ]
    assert rates == [["20", "/s"], ["0", "/s"]]


def test_a_port_can_be_named(dwell: Callable[..., Ran], purgatory: Purgatory) -> None:
    with serve_statistics(purgatory) as one, serve_statistics(purgatory):
        assert "more than one program serves statistics, name a port" in dwell("top", "--once").problem
        assert "produce" in dwell("top", one.port, "--once", "--every", "10ms").out


def test_nothing_serves(dwell: Callable[..., Ran], purgatory: Purgatory, tmp_path: Path) -> None:
    assert "call dwell.serve_statistics(purgatory)" in dwell("top").problem
    server = serve_statistics(purgatory)
    server.close()
    server.close()
    assert "has the program ended?" in dwell("top", server.port).problem
    assert list(tmp_path.rglob("*.json")) == []


def test_only_loopback_names_are_answered_and_only_reading(purgatory: Purgatory) -> None:
    with serve_statistics(purgatory) as server:

        def ask(method: str, host: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
            connection.request(method, "/", headers={"Host": host})
            answer = connection.getresponse()
            if answer.status == 200:
                assert json.load(answer)["sources"][0]["name"] == "produce"
            connection.close()
            return answer.status

        assert [ask("GET", "localhost:1"), ask("GET", "evil.example"), ask("POST", "127.0.0.1")] == [200, 403, 501]


def test_misuse_raises_at_the_call(purgatory: Purgatory) -> None:
    with pytest.raises(InvalidArgument, match="at least one"):
        serve_statistics()
    with pytest.raises(InvalidType, match="takes what has statistics"):
        serve_statistics(42)  # type: ignore[arg-type]
    with serve_statistics(purgatory) as server, pytest.raises(InvalidArgument, match="cannot be had"):
        serve_statistics(purgatory, port=server.port)
