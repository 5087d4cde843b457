from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran, Shop


@pytest.fixture
def out(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> Path:
    assert dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "out").code == 0
    return tmp_path / "out"


def test_a_report_says_the_five_figures_and_where_it_is(dwell: Callable[..., Ran], out: Path) -> None:
    ran = dwell("report", out, "--by", "shop")
    assert [line.split("  ")[-1] for line in ran.out.splitlines()[:5]] == [
        "operations",
        "completed in time",
        "expired",
        "median wait",
        "99 % waited at most",
    ]
    assert ran.last_line == str(out / "report.html")
    assert "south expires most" in (out / "report.html").read_text()


def test_a_report_is_beside_the_outcomes_not_among_them(dwell: Callable[..., Ran], out: Path) -> None:
    assert dwell("report", out / "outcomes").last_line == str(out / "report.html")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nowhere"], "nowhere does not exist: give the directory `dwell settle --out` wrote"),
        (["OUT", "--by", "nope"], "has no column 'nope'; it has op_id, outcome"),
        (["OUT", "--curve", "OUT/summary.json"], "is no curve: make one with `dwell curve"),
    ],
)
def test_a_report_that_cannot_be_made(dwell: Callable[..., Ran], out: Path, argv: list[str], said: str) -> None:
    assert said in dwell("report", *(arg.replace("OUT", str(out)) for arg in argv)).problem


def test_a_curve_is_a_table_a_picture_and_an_answer(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    picture, file = tmp_path / "curve.svg", tmp_path / "curve.json"
    ran = dwell(
        *("curve", shop.operations, shop.events, "--engine", "memory", "--delays", "100ms,1s,2s", "--keep", "50%"),
        *("--keep", "0.999", "--picture", picture, "--json", file),
    )
    assert "         1 s             3     75.0 %  ██████████████████████████████  ← chosen" in ran.out.splitlines()
    assert "2 s keeps 50 % alive (2,000 ms)" in ran.out
    assert ran.last_line == "no timeout up to 2 s keeps 99.9 % alive"
    assert picture.read_text().startswith("<svg ")
    assert json.loads(file.read_text())["shortest"] == {"0.5": 2000, "0.999": None}


def test_the_summary_and_the_report_say_the_same_of_the_same_outcomes(
    dwell: Callable[..., Ran], tmp_path: Path
) -> None:
    choose = random.Random(11)
    orders, payments = ["op_id,submitted_at,needs"], ["key,at"]
    for number in range(3000):
        orders.append(f"{number},2026-03-02T00:00:00Z,{number}")
        minutes, ms = divmod(int(choose.expovariate(1 / 700_000)), 60_000)
        if minutes < 60:
            payments.append(f"{number},2026-03-02T00:{minutes:02d}:{ms / 1000:06.3f}Z")
    (tmp_path / "orders.csv").write_text("\n".join(orders))
    (tmp_path / "payments.csv").write_text("\n".join(payments))
    argv = (tmp_path / "orders.csv", tmp_path / "payments.csv", "--within", "30m", "--engine", "memory")
    summary = dwell("settle", *argv, "--curve", "--out", tmp_path / "out").out
    report = dwell("report", tmp_path / "out").out
    said = dict(re.findall(r"(p\S+) (.+?)(?: · |$)", re.findall("^waits +(.*)$", summary, re.M)[0]))
    told = {what: value for value, what in re.findall(r"^ *(.+?)  (\S.*)$", report, re.M)}
    assert (told["median wait"], told["99 % waited at most"]) == (said["p50"], said["p99"])
    expired = re.findall("^expired +(.*)$", summary, re.M)[0]
    assert told["expired"] == expired
    # The picture of the curve says the same at the chosen timeout, and nothing else of the same name.
    html = (tmp_path / "out" / "report.html").read_text()
    assert set(re.findall("(?<!h )30 min: (.*?) would expire", html)) == {expired}
    chosen = next(line for line in dwell("curve", *argv).out.splitlines() if "chosen" in line)
    assert expired in chosen
    for percentile in ("p90", "p99.9"):
        assert f"<td>{said[percentile]}</td>" in html


def test_bench_outside_the_source_tree_says_where_to_go(
    dwell: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dwell.cli import bench

    monkeypatch.setattr(bench, "_places", list)
    assert "run this in dwell's source tree" in dwell("bench").problem
