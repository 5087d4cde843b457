"""`dwell settle --engine memory`: the whole command without a Java process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

import pyarrow as pa
import pytest
from pyarrow import parquet

from dwell.cli import summary, text_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran, Shop

IDENTITY = "ledger identity holds: 4 operations in, 1 completed + 2 expired + 1 rejected + 0 pending"


def test_the_last_line_and_the_exit_code_tell_the_ledger_identity(
    dwell: Callable[..., Ran], shop: Shop, tmp_path: Path
) -> None:
    ran = dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert (ran.code, ran.last_line) == (0, IDENTITY)


def test_outcomes_rejected_rows_and_a_summary_are_written(
    dwell: Callable[..., Ran], shop: Shop, tmp_path: Path
) -> None:
    dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "out")
    outcomes = parquet.read_table(tmp_path / "out" / "outcomes").sort_by("op_id").to_pylist()
    assert [(row["op_id"], row["outcome"], row["waited_ms"], row["shop"]) for row in outcomes] == [
        ("a", "completed", 200, "north"),
        ("b", "expired", 1000, "south"),
        ("c", "expired", 1000, "south"),
        ("d", "rejected", None, "north"),
    ]
    rejected = parquet.read_table(tmp_path / "out" / "rejected").to_pylist()
    assert [(row["op_id"], row["reason"], row["delay_ms"]) for row in rejected] == [
        ("d", "delay_ms is negative: -1", -1)
    ]
    said = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert said["identity_holds"]
    assert (said["operations"], said["events"], said["waited_ms"]["p50"]) == (4, 2, 200)


def test_a_broken_identity_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    broken = summary.Summary(
        engine="x", out="x", operations=5, repeats=0, completed=1, expired=1, rejected=1, pending=1, seconds=1
    )
    assert broken.tell() == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("LEDGER IDENTITY BROKEN: 5 operations in, 1 completed")


def test_as_of_leaves_the_undecided_pending(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    as_of = "2026-03-02T00:00:00.500Z"
    ran = dwell("settle", shop.operations, shop.events, "--engine", "memory", "--as-of", as_of, "--out", tmp_path / "o")
    assert ran.last_line.endswith("1 completed + 0 expired + 1 rejected + 2 pending")


def test_csv_with_other_names_and_one_delay_for_all(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(
        "order_no,placed_at,city\n1,2026-03-02T00:00:00Z,Ulm\n2,2026-03-02 00:00:00,Köln\n3,yesterday,Ulm\n"
    )
    (tmp_path / "payments.csv").write_text("order_no,paid_at\n1,2026-03-02T01:00:10+01:00\n,2026-03-02T00:00:00Z\n")
    maps = ["op_id=order_no", "submitted_at=placed_at", "needs=order_no", "key=order_no", "at=paid_at"]
    ran = dwell(
        *("settle", tmp_path / "orders.csv", tmp_path / "payments.csv", "--engine", "memory", "--within", "30m"),
        *(part for one in maps for part in ("--map", one)),
        *("--out", tmp_path / "out"),
    )
    assert ran.last_line.endswith("3 operations in, 1 completed + 1 expired + 1 rejected + 0 pending")
    rows = parquet.read_table(tmp_path / "out" / "outcomes").sort_by("op_id").to_pylist()
    assert [(row["op_id"], row["waited_ms"], row["city"]) for row in rows] == [
        ("1", 10_000, "Ulm"),
        ("2", 1_800_000, "Köln"),
        ("3", None, "Ulm"),
    ]
    assert "1 set aside" in ran.out


def test_needs_as_json_text_and_as_lists_of_keys(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    base = '"submitted_at": "2026-03-02T00:00:00Z", "delay_ms": 1000'
    (tmp_path / "ops.jsonl").write_text(
        f'{{"op_id": "json", {base}, "needs": "[{{\\"key\\": \\"k\\", \\"level\\": 5}}]"}}\n'
        f'{{"op_id": "bad", {base}, "needs": "[oops"}}\n'
    )
    (tmp_path / "events.jsonl").write_text('{"key": "k", "at": "2026-03-02T00:00:00.5Z", "level": 6}\n')
    ran = dwell(
        "settle", tmp_path / "ops.jsonl", tmp_path / "events.jsonl", "--engine", "memory", "--out", tmp_path / "out"
    )
    assert ran.code == 0, ran
    rows = {row["op_id"]: row for row in parquet.read_table(tmp_path / "out" / "outcomes").to_pylist()}
    assert (rows["json"]["outcome"], rows["json"]["completed_by"]) == ("completed", "k")
    assert rows["bad"]["reason"] == "needs is null"


def test_repeats_are_counted_and_contents_that_differ_keep_their_own_columns(
    dwell: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "ops.csv").write_text(
        "op_id,submitted_at,delay_ms,needs,note\n"
        "x,2026-03-02T00:00:01Z,10,k,second\nx,2026-03-02T00:00:00Z,10,k,first\nx,2026-03-02T00:00:00Z,10,k,again\n"
    )
    (tmp_path / "events.csv").write_text("key,at\nk,2026-03-02T00:00:00Z\n")
    ran = dwell(
        "settle", tmp_path / "ops.csv", tmp_path / "events.csv", "--engine", "memory", "--out", tmp_path / "out"
    )
    assert "repeats    1 rows" in ran.out
    rows = parquet.read_table(tmp_path / "out" / "outcomes").to_pylist()
    assert {(row["outcome"], row["note"]) for row in rows} == {("completed", "first"), ("rejected", "second")}


@pytest.mark.parametrize(
    "rows",
    [
        # As the contract sorts them: time, delay, needs, quorum, volume; null before any number.
        ['10,"[""a"",""b""]",,', '10,"[""a"",""b""]",1,', '10,"[""a"",""b""]",2,'],
        ['10,"[""a"",""b""]",2,', '10,"[""a"",""c""]",1,'],
        ['10,"[""a""]",1,', '10,"[""a"",""b""]",,'],
        ['10,"[{""key"":""a"",""level"":1}]",,', '10,"[{""key"":""a"",""level"":1}]",,5'],
        ['10,"[""a""]",,', '10,"[{""key"":""a"",""level"":1}]",,'],
        ['9,"[""z""]",1,', '10,"[""a""]",,'],
    ],
)
def test_the_outcome_stands_beside_the_columns_of_the_first_rival(
    dwell: Callable[..., Ran], tmp_path: Path, rows: list[str]
) -> None:
    lines = [f"x,2026-03-02T00:00:00Z,{row},{place}" for place, row in enumerate(rows)]
    (tmp_path / "events.csv").write_text("key,at\nnobody,2026-03-02T00:00:00Z\n")
    for order in (lines, lines[::-1]):
        (tmp_path / "ops.csv").write_text("\n".join(["op_id,submitted_at,delay_ms,needs,quorum,volume,place", *order]))
        argv = ("settle", tmp_path / "ops.csv", tmp_path / "events.csv", "--engine", "memory", "--overwrite")
        assert dwell(*argv, "--out", tmp_path / "out").code == 0
        found = {
            (row["place"], row["outcome"], row["waited_ms"])
            for row in parquet.read_table(tmp_path / "out" / "outcomes").to_pylist()
        }
        waited_ms = int(rows[0].split(",")[0])
        rejected = {(str(place), "rejected", None) for place in range(1, len(rows))}
        assert found == {("0", "expired", waited_ms), *rejected}


def test_no_operations_are_no_problem(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    empty = parquet.read_table(shop.operations).slice(0, 0)
    parquet.write_table(empty, shop.operations)
    ran = dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert (ran.code, ran.last_line[:40]) == (0, "ledger identity holds: 0 operations in, ")


def test_the_curve_lies_beside_the_outcomes_if_asked_for(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    dwell("settle", shop.operations, shop.events, "--engine", "memory", "--curve", "--out", tmp_path / "out")
    said = json.loads((tmp_path / "out" / "curve.json").read_text())
    assert said["chosen_ms"] == 1000
    # The negative delay is everyone's delay now: a, b, c, d, of which b is paid after two seconds.
    assert [one["expired"] for one in said["candidates"] if one["delay_ms"] in (100, 1000, 2000)] == [4, 3, 2]


def test_timestamps_without_a_zone_are_utc(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    table = parquet.read_table(shop.operations)
    place = table.column_names.index("submitted_at")
    naive = table["submitted_at"].cast(pa.timestamp("us"))
    parquet.write_table(table.set_column(place, "submitted_at", naive), shop.operations)
    ran = dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert ran.last_line == IDENTITY


def test_a_pattern_names_many_files(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    table = parquet.read_table(shop.operations)
    shop.operations.unlink()
    for row in range(4):
        parquet.write_table(table.slice(row, 1), shop.operations.with_name(f"orders-{row}.parquet"))
    pattern = shop.operations.with_name("orders-[0-2].parquet")
    ran = dwell("settle", pattern, shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert ran.last_line.endswith("3 operations in, 1 completed + 2 expired + 0 rejected + 0 pending")


def test_hidden_files_and_folders_are_not_data(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    for name in ("orders/_temporary/0", "orders/.hidden", "orders/more"):
        (tmp_path / name).mkdir(parents=True)
    table = parquet.read_table(shop.operations)
    for row, name in enumerate(("_temporary/0/x.parquet", ".hidden/x.parquet", "_x.parquet", "more/x.parquet")):
        parquet.write_table(table.slice(row, 1), tmp_path / "orders" / name)
    ran = dwell("settle", tmp_path / "orders", shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert ran.last_line.endswith("1 operations in, 0 completed + 0 expired + 1 rejected + 0 pending")


def test_rows_that_are_too_short_or_too_long_are_rows(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text(
        "\ufeffop_id,submitted_at,delay_ms,needs\n\na,2026-03-02T00:00:00Z,1000,a,more\nb,2026-03-02T00:00:00Z\n"
    )
    ran = dwell("settle", tmp_path / "ops.csv", shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert ran.last_line.endswith("2 operations in, 1 completed + 0 expired + 1 rejected + 0 pending")
    rejected = parquet.read_table(tmp_path / "out" / "rejected").to_pylist()
    assert [(row["op_id"], row["reason"]) for row in rejected] == [("b", "delay_ms is null")]


def test_texts_behind_a_time_that_are_no_zone_cost_one_look_at_the_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def look() -> set[str]:
        nonlocal looks
        looks += 1
        return available_timezones()

    monkeypatch.setattr(text_value, "available_timezones", look)
    # A comma in place of the point, as many logs have it.
    assert {text_value.time_us(f"2026-03-02 09:00:00,{i:03}") for i in range(100)} == {None}
    assert looks <= 1
