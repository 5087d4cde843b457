"""Both engines make the same of the same dirty file: the same rows, with the same reasons."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as F

from dwell.cli import text_value
from dwell.cli.table_input import CSV_OPTIONS, JSON_OPTIONS, needs_of_text
from dwell.cli.text_file import CORRUPT, read_csv, read_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.cli.conftest import Ran

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_session")]

AT = "2026-03-02T00:00:00Z"

# op_id, submitted_at, delay_ms, needs, quorum, volume, note: as text, and nothing where None stands.
DIRTY: list[tuple[str | None, ...]] = [
    ("sound", AT, "1000", "a", None, None, "x"),
    ("", AT, "1000", "a", None, None, "no op_id"),
    (None, AT, "1000", "a", None, None, "no op_id either"),
    (" spaces ", AT, " 1000\t", "a", None, None, None),
    ("never", "yesterday", "1000", "a", None, None, None),
    ("noon", "12:00", "1000", "a", None, None, None),
    ("day", "2026-03-02", "86400000", "a", None, None, None),
    ("month", "2026-03", "1000", "a", None, None, None),
    ("zone", "2026-03-02 01:00:00 Europe/Berlin", "1000", "a", None, None, None),
    ("offset", "2026-03-02T01:00:00.1234567+01:00", "1000", "a", None, None, None),
    ("no seconds", "2026-03-02T00:00Z", "1000", "a", None, None, None),
    ("far", "12026-03-02T00:00:00Z", "1000", "a", None, None, None),
    ("no such day", "2026-02-30T00:00:00Z", "1000", "a", None, None, None),
    ("before 1970", "1969-12-31T23:59:59.9995Z", "1000", "a", None, None, None),
    ("negative", AT, "-1", "a", None, None, None),
    ("underscore", AT, "1_000", "a", None, None, None),
    ("fraction", AT, "1000.0", "a", None, None, None),
    ("exponent", AT, "1e3", "a", None, None, None),
    ("arabic", AT, "\u0661\u0660\u0660\u0660", "a", None, None, None),
    ("twenty digits", AT, "12345678901234567890", "a", None, None, None),
    ("the most", AT, "9223372036854775807", "a", None, None, None),
    ("plus", AT, "+1000", "a", None, None, None),
    ("no needs", AT, "1000", None, None, None, None),
    ("other name", AT, "1000", '[{"k":"a"}]', None, None, None),
    ("level as text", AT, "1000", '[{"key":"a","level":"5"}]', None, None, None),
    ("level as words", AT, "1000", '[{"key":"a","level":"five"}]', None, None, None),
    ("level with fraction", AT, "1000", '[{"key":"a","level":5.5}]', None, None, None),
    ("level of twenty digits", AT, "1000", '[{"key":"a","level":12345678901234567890}]', None, None, None),
    ("keys", AT, "1000", '["a", "b"]', None, None, None),
    ("numbers", AT, "1000", "[1, 2.50, 12345678.0]", "1", None, None),
    ("mixed", AT, "1000", '["a", {"key": "b", "level": 4}]', "1", None, None),
    ("null need", AT, "1000", '[null, "a"]', None, None, None),
    ("twice", AT, "1000", '["a", "a"]', None, None, None),
    ("empty list", AT, "1000", "[]", None, None, None),
    ("no JSON", AT, "1000", "[oops", None, None, None),
    ("single quotes", AT, "1000", "[{'key':'a'}]", None, None, None),
    ("trailing", AT, "1000", '["a"] and more', None, None, None),
    ("nested", AT, "1000", '[["a"], {"key": {"x": [1]}}]', "1", None, None),
    ("quorum", AT, "1000", '["a", "b"]', "1", None, None),
    ("quorum too large", AT, "1000", '["a", "b"]', "3000000000", None, None),
    ("quorum of twenty digits", AT, "1000", '["a", "b"]', "12345678901234567890", None, None),
    ("volume", AT, "1000", '[{"key":"b","level":1}]', None, "3", None),
    ("volume of nothing", AT, "1000", '[{"key":"b","level":1}]', None, "0", None),
    ("volume and quorum", AT, "1000", '[{"key":"b","level":1}]', "1", "3", None),
    ("volume without level", AT, "1000", "b", None, "3", None),
    ("rival", AT, "1000", '["a", "b"]', None, None, "no quorum comes first"),
    ("rival", AT, "1000", '["a", "b"]', "1", None, "second"),
    ("rival", AT, "1000", '["a", "b"]', "2", None, "third"),
    ("rival", AT, "-1000", '["a", "b"]', "2", None, "has a fault of its own"),
]
EVENTS: list[tuple[str | None, ...]] = [
    ("a", "2026-03-02T00:00:00.5Z", None),
    ("a", "2026-03-02T00:00:00.7Z", "6"),
    ("b", "2026-03-02T00:00:00.6Z", " 4 "),
    ("b", "noon", "4"),
    ("b", "2026-03-02T00:00:00.1Z", "four"),
    (None, AT, "1"),
    ("a", None, "1"),
    ("b", "22026-03-02T00:00:00Z", "1"),
]
COLUMNS = ("op_id", "submitted_at", "delay_ms", "needs", "quorum", "volume", "note")
EVENT_COLUMNS = ("key", "at", "level")


def same(dwell: Callable[..., Ran], tmp_path: Path, operations: Path, events: Path, *argv: object) -> list[Any]:
    """The outcomes, which must be those of both engines, and so must the rejected rows and the summary."""
    found = []
    for engine in ("spark", "memory"):
        out = tmp_path / engine
        ran = dwell("settle", operations, events, "--engine", engine, "--out", out, *argv)
        assert ran.code == 0, ran
        rows = [_rows(parquet.read_table(out / part)) for part in ("outcomes", "rejected")]
        said = json.loads((out / "summary.json").read_text())
        told = {name: said[name] for name in said if name not in ("engine", "out", "seconds")}
        found.append(([sorted(part, key=str) for part in rows], told))
    assert found[0] == found[1]
    return found[0][0][0]


def _rows(table: pa.Table) -> list[Any]:
    # Times as numbers: Python's own end with the year 9999.
    kinds = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    types = pa.schema([(name, kind) for name, kind in zip(table.column_names, kinds, strict=True)])
    zones = {field.name: field.type.tz for field in table.schema if pa.types.is_timestamp(field.type)}
    return [{**row, "zones": zones} for row in table.cast(types).to_pylist()]


def as_csv(rows: list[tuple[str | None, ...]], columns: tuple[str, ...]) -> str:
    quoted = [",".join('"' + (field or "").replace('"', '""') + '"' for field in row) for row in rows]
    return "\n".join([",".join(columns), *quoted]) + "\n"


def test_csv(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    lines = ["", "   ", '"never closed,2026-03-02,5,a', "short", f"long,{AT},1000,a,,,n,more,and more"]
    lines += [f'"more" behind,{AT},1000,a', f'in"side,{AT},1000,a', f'back\\"slash,{AT},1000,a', f'"tail" ,{AT},1000,a']
    (tmp_path / "ops.csv").write_text(as_csv(DIRTY, COLUMNS) + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "events.csv").write_text(as_csv(EVENTS, EVENT_COLUMNS))
    rows = {row["op_id"]: row for row in same(dwell, tmp_path, tmp_path / "ops.csv", tmp_path / "events.csv")}
    assert rows["level as text"]["outcome"] == "completed"
    assert rows["level as text"]["waited_ms"] == 700
    assert rows["level as words"]["reason"] == "needs is null"
    assert rows["other name"]["reason"] == "needs has a null key"
    assert rows["twenty digits"]["reason"] == rows["underscore"]["reason"] == "delay_ms is null"
    assert rows["noon"]["reason"] == "submitted_at is null"
    assert rows["quorum too large"]["reason"] == "quorum is outside 1 to the number of needs: 3000000000"
    assert rows['back\\"slash']["outcome"] == "completed"
    assert len(rows) > 50


def test_headers_without_a_name_or_with_one_twice(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text(f",op_id,submitted_at,delay_ms,needs,Note,note\n0,a,{AT},1000,a,x,y\n")
    (tmp_path / "events.csv").write_text(as_csv(EVENTS, EVENT_COLUMNS))
    rows = same(dwell, tmp_path, tmp_path / "ops.csv", tmp_path / "events.csv")
    assert [(row["_c0"], row["Note5"], row["note6"]) for row in rows] == [("0", "x", "y")]


@pytest.mark.parametrize("engine", ["spark", "memory"])
def test_files_with_other_columns_are_not_mixed_up(dwell: Callable[..., Ran], tmp_path: Path, engine: str) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "1.csv").write_text(f"op_id,submitted_at,delay_ms,needs\na,{AT},1000,a\n")
    (tmp_path / "ops" / "2.csv").write_text(f"needs,submitted_at,delay_ms,op_id\na,{AT},1000,b\n")
    (tmp_path / "events.csv").write_text(as_csv(EVENTS, EVENT_COLUMNS))
    argv = ("settle", tmp_path / "ops", tmp_path / "events.csv", "--engine", engine, "--out", tmp_path / "out")
    assert "2.csv has other columns than the files beside it: make them alike, or name one file" in dwell(*argv).problem


def test_json_lines(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    texts = [dict(zip(COLUMNS, row, strict=True)) for row in DIRTY]
    lines = [json.dumps(row) for row in texts]
    base = f'"submitted_at": "{AT}", "delay_ms": 1000'
    lines += [
        "",
        "oops",
        "5",
        "null",
        '"text"',
        "{}",
        f'{{"op_id": "cut", {base}, "needs": "a"',
        f'{{"op_id": "bad later", {base}, "needs": "a", "extra": NaN}}',
        f'[{{"op_id": "in a list", {base}, "needs": "a"}}, {{"op_id": "another", {base}, "needs": ["a"]}}]',
        f'{{"op_id": 17, {base}, "needs": "a"}}',
        f'{{"op_id": 17.50, {base}, "needs": "a"}}',
        f'{{"op_id": true, {base}, "needs": 5}}',
        f'{{"op_id": ["a", 1], {base}, "needs": {{"key": "a"}}}}',
        f'{{"op_id": "list", {base}, "needs": [{{"key": "a", "level": 5, "more": 1}}, "b"]}}',
        f'{{"op_id": "level as text, not in text", {base}, "needs": [{{"key": "a", "level": "5"}}]}}',
        f'{{"op_id": "half a pair \\ud800", {base}, "needs": "a"}}',
        f'{{"OP_ID": "another case", {base}, "needs": "a"}}',
        f'{{"op_id": "a long number", "submitted_at": "{AT}", "delay_ms": 12345678901234567890, "needs": "a"}}',
        f'{{"op_id": "a fraction", "submitted_at": "{AT}", "delay_ms": 1000.5, "needs": "a"}}',
        '{"op_id": "a number as time", "submitted_at": 1772409600, "delay_ms": 1000, "needs": "a", "n": 1}',
        f'{{"op_id": "numbers", {base}, "needs": "a", "n": 2.5, "flag": true, "list": [1, 2], "deep": {{"x": 1}}}}',
        f'{{"op_id": "behind", {base}, "needs": "a"}} and more',
    ]
    (tmp_path / "ops.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    events = [json.dumps(dict(zip(EVENT_COLUMNS, row, strict=True))) for row in EVENTS]
    events += [
        '{"key": "a", "at": 5}',
        '{"key": 5, "at": "2026-03-02T00:00:00.5Z"}',
        "oops",
        '{"key": "a", "level": 1.5}',
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(events) + "\n")
    found = same(dwell, tmp_path, tmp_path / "ops.jsonl", tmp_path / "events.jsonl")
    rows = {row["op_id"]: row for row in found}
    assert rows["level as text, not in text"]["waited_ms"] == 700
    assert rows["17.50"]["outcome"] == rows["true"]["outcome"] == "completed"
    assert (rows["numbers"]["n"], rows["numbers"]["flag"], rows["numbers"]["deep"]) == (2.5, True, {"x": 1})
    assert "cut" not in rows
    assert {row[CORRUPT] for row in found if row[CORRUPT]} >= {"oops", "5", "null", '"text"'}


def test_parquet(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    need = pa.list_(pa.struct([("level", pa.string()), ("more", pa.int32()), ("key", pa.string())]))
    levels = ["5", None, "five", " 6 ", "12345678901234567890", "5.0"]
    lists: list[Any] = [[{"key": "a", "level": level}] for level in levels]
    lists += [None, [], [None], [{"key": None}], [{"key": "a"}, {"key": "a"}], [{"key": "b"}, {"key": "a"}]]
    rows = len(lists)
    micros = [start + timedelta(microseconds=i - 3) for i in range(rows)]
    far = [-(2**63), 2**63 - 1, 253_402_300_800_000_000, -62_135_596_800_000_001]
    times = pa.array([*micros[:-4]], pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist() + far
    table = pa.table(
        {
            "op_id": pa.array(range(rows), pa.uint32()),
            "submitted_at": pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "delay_ms": pa.array([1000] * (rows - 4) + [2**31 - 1] * 4, pa.int32()),
            "needs": pa.array(lists, need),
            "quorum": pa.array([None] * (rows - 1) + [2**40], pa.int64()),
            "volume": pa.array([None] * (rows - 1) + ["x"], pa.string()),
            "note": pa.array(["x"] * rows).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "ops.parquet")
    at = pa.array([start + timedelta(milliseconds=500)] * 2 + [None], pa.timestamp("ms", tz="UTC"))
    events = pa.table({"key": ["a", None, "a"], "at": at, "level": pa.array([6, 6, 6], pa.int8())})
    parquet.write_table(events, tmp_path / "events.parquet")
    found = {row["op_id"]: row for row in same(dwell, tmp_path, tmp_path / "ops.parquet", tmp_path / "events.parquet")}
    assert [found[str(i)]["outcome"] for i in range(5)] == [
        "completed",
        "completed",
        "rejected",
        "completed",
        "rejected",
    ]
    naive = table.slice(0, 4).set_column(1, "submitted_at", table["submitted_at"].slice(0, 4).cast(pa.timestamp("us")))
    parquet.write_table(naive, tmp_path / "ops.parquet")
    same(dwell, tmp_path, tmp_path / "ops.parquet", tmp_path / "events.parquet", "--overwrite")


def test_as_of_before_1970(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text("op_id,submitted_at,delay_ms,needs\na,1969-12-31T23:59:59Z,500,k\n")
    (tmp_path / "events.csv").write_text("key,at\nx,1969-12-31T23:59:59Z\n")
    as_of = ("--as-of", "1969-12-31T23:59:59.4999Z")
    rows = same(dwell, tmp_path, tmp_path / "ops.csv", tmp_path / "events.csv", *as_of)
    assert [row["outcome"] for row in rows] == ["pending"]


# -- texts at random


def times(choose: random.Random) -> str:
    text = choose.choice(["2026", "1969", "0001", "0000", "9999", "10000", "294247", "-0001", "+2026", "26", "202603"])
    for parts, share in ((["-3", "-03", "-12", "-13", "-0"], 0.95), (["-2", "-02", "-29", "-31", "-32", "-0"], 0.95)):
        text += choose.choice(parts) if choose.random() < share else ""
    if choose.random() < 0.9:
        text += choose.choice([" ", "T", " ", "T", "t", "  "]) + choose.choice(["9", "09", "23", "24", "", "009"])
        text += choose.choice([":0", ":00", ":59", ":60", ":", ""]) + choose.choice(
            [":0", ":05", ":59", ":60", ":", ""]
        )
        text += choose.choice(["", "", ".", ".1", ".123456", ".1234567", ".999999999"])
        zones = ["", "", "Z", "z", "+01:00", "-1:00", "+1:5", "+0100", "+01", "+18:00", "+18:01", "UTC", "GMT", "UTC+1"]
        zones += [
            "UT-2",
            "+01:30:15",
            "+013015",
            "+01:3015",
            "Europe/Berlin",
            "europe/berlin",
            "PST",
            "EST",
            "foo",
            "+",
        ]
        text += choose.choice(["", " "]) + choose.choice(zones)
    around = ["", "", "", "", " ", "\t", "\x01", "\x7f", "\xa0"]
    return choose.choice(around) + text + choose.choice(around)


def json_value(choose: random.Random, depth: int = 0) -> str:
    kind = choose.random()
    if kind < 0.5 or depth > 2:
        scalars = ["1", "1.50", "-0", "1e3", "null", "true", '"x y"', '"\\u00e9"', "12345678901234567890", '""', "NaN"]
        return choose.choice([*scalars, "01", '"\\ud800"', '"5"', "tru", '"never closed'])
    inner = [json_value(choose, depth + 1) for _ in range(choose.randint(0, 3))]
    if kind < 0.75:
        return "[" + choose.choice([",", ", "]).join(inner) + "]"
    return "{" + ",".join(f'"{name}": {value}' for name, value in zip(("key", "level", "x"), inner, strict=False)) + "}"


def test_numbers_times_and_needs_at_random(spark: SparkSession) -> None:
    choose = random.Random(20260302)
    texts = [times(choose) for _ in range(3000)] + ["now", "epoch", "T12:00", "2026-03-29 02:30:00 Europe/Berlin"]
    texts += [
        "".join(choose.choice("0123456789+-. _e\t\x01x\u0663") for _ in range(choose.randint(0, 4)))
        for _ in range(2000)
    ]
    texts += ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "0" * 30 + "5"]
    values = [json_value(choose) for _ in range(2000)]
    texts += [choose.choice(["", "[", " [", "\t["]) + value + choose.choice(["", "]", "] x"]) for value in values]
    texts += [f'[{{"key": {json_value(choose)}, "level": {json_value(choose, 3)}}}]' for _ in range(1000)]
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    text = F.col("text")
    time = F.when(~text.rlike(text_value.TIME_OF_DAY), text.try_cast("timestamp"))
    frame = own.createDataFrame([(text,) for text in texts], "text string").select(
        text,
        text.try_cast("bigint").alias("number"),
        F.unix_micros(time).alias("time"),
        needs_of_text(text).alias("needs"),
    )
    for row in frame.collect():
        assert text_value.number(row.text) == row.number, row.text
        assert text_value.time_us(row.text) == row.time, row.text
        needs = None if row.needs is None else [tuple(need) for need in row.needs]
        assert text_value.needs(row.text) == needs, row.text


def test_lines_at_random(spark: SparkSession, tmp_path: Path) -> None:
    choose = random.Random(7)
    lines = ["".join(choose.choice('""",,a b\t\\') for _ in range(choose.randint(1, 12))) for _ in range(3000)]
    file = tmp_path / "lines.csv"
    file.write_text("x,y,z\n" + "\n".join(lines) + "\n")
    ours = [tuple(row.values()) for row in read_csv([file], ",").to_pylist()]
    assert ours == [tuple(row) for row in spark.read.options(**CSV_OPTIONS).csv(str(file)).collect()]

    names = ["op_id", "needs", "n"]
    lines = []
    for _ in range(2000):
        line = "{" + ",".join(f'"{name}" : {json_value(choose)}' for name in names[: choose.randint(0, 3)]) + "}"
        if choose.random() < 0.1:
            line = line[: choose.randint(1, len(line))]
        lines.append(line + choose.choice(["", "", " x", "]"]))
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(lines) + "\n")
    read = spark.read.options(**JSON_OPTIONS).schema(f"op_id string, needs string, n string, {CORRUPT} string")
    theirs = [
        (None, None, None, row[CORRUPT]) if row[CORRUPT] else tuple(row) for row in read.json(str(file)).collect()
    ]
    ours = [tuple(row[name] for name in (*names, CORRUPT)) for row in read_json([file], names).to_pylist()]
    assert ours == theirs
