"""The commands on Spark, in the session of the tests."""

from __future__ import annotations

import json
import random
import shutil
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dwell.cli.inputs import Input, Inputs
from dwell.cli.stream_summary import _Source
from dwell.cli.table_job import waits_of
from dwell.report.wait_histogram import WaitHistogram
from tests.spark.conftest import spark  # noqa: F401  (a fixture)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.cli.conftest import Ran, Shop

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_session")]


def test_spark_and_memory_write_the_same_outcomes(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    for engine in ("spark", "memory"):
        ran = dwell("settle", shop.operations, shop.events, "--engine", engine, "--out", tmp_path / engine)
        assert ran.last_line.endswith("4 operations in, 1 completed + 2 expired + 1 rejected + 0 pending")
    one, other = (
        parquet.read_table(tmp_path / engine / "outcomes").sort_by("op_id").to_pylist()
        for engine in ("spark", "memory")
    )
    assert one == other
    assert len(parquet.read_table(tmp_path / "spark" / "rejected")) == 1
    said = json.loads((tmp_path / "spark" / "summary.json").read_text())
    assert (said["identity_holds"], said["operations"], said["events"]) == (True, 4, 2)


def test_operations_and_events_cut_out_of_one_log_by_sql(dwell: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "case,activity,at\n"
        "d1,submitted,2026-03-02T09:00:00+01:00\nd1,approved,2026-03-03T09:00:00+01:00\nd1,paid,2026-03-05T09:00:00+01:00\n"
        "d2,submitted,2026-03-02T09:00:00+01:00\nd2,paid,2026-03-12T09:00:00+01:00\n"
    )
    ran = dwell(
        *("settle", tmp_path / "log.csv", tmp_path / "log.csv", "--within", "7d", "--out", tmp_path / "out"),
        *("--operations-sql", "SELECT case AS op_id, min(at) AS submitted_at, case AS needs FROM input GROUP BY case"),
        *("--events-sql", "SELECT case AS key, at FROM input WHERE activity = 'paid'"),
    )
    assert ran.last_line.endswith("2 operations in, 1 completed + 1 expired + 0 rejected + 0 pending"), ran
    rows = {row["op_id"]: row["waited_ms"] for row in parquet.read_table(tmp_path / "out" / "outcomes").to_pylist()}
    assert rows == {"d1": 3 * 86_400_000, "d2": 7 * 86_400_000}


@pytest.mark.parametrize("kind", ["orders", "produce", "fetch", "sessions"])
def test_a_sample_is_the_same_rows_for_the_same_seed_and_settles(
    dwell: Callable[..., Ran], tmp_path: Path, kind: str
) -> None:
    for out in ("one", "two"):
        assert dwell("sample", kind, tmp_path / out, "--rows", "2k", "--seed", "7").code == 0
    for part in ("operations", "events"):
        one, two = (parquet.read_table(tmp_path / out / part).to_pylist() for out in ("one", "two"))
        assert sorted(map(str, one)) == sorted(map(str, two))
    ran = dwell(
        *("settle", tmp_path / "one" / "operations", tmp_path / "one" / "events", "--engine", "memory"),
        *("--out", tmp_path / "out"),
    )
    assert ran.code == 0, ran
    said = json.loads((tmp_path / "out" / "summary.json").read_text())
    # Most complete, some do not: a workload where nothing happens would teach nothing.
    assert said["completed"] > said["expired"] > 0


def test_a_stream_settles_what_is_there_and_goes_on_from_its_checkpoint(
    dwell: Callable[..., Ran], shop: Shop, tmp_path: Path
) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "events").mkdir()
    shop.operations.rename(tmp_path / "ops" / "1.parquet")
    shop.events.rename(tmp_path / "events" / "1.parquet")
    argv: tuple[object, ...] = (
        "settle",
        tmp_path / "ops",
        tmp_path / "events",
        "--stream",
        "--once",
        "--lateness",
        "0s",
        "--shards",
        "2",
    )
    argv = (*argv, "--checkpoint", tmp_path / "checkpoint", "--out", tmp_path / "out")
    first = dwell(*argv)
    assert first.code == 0, first
    assert first.last_line.startswith("ledger identity holds: 4 operations in, "), first
    # An event in the far future moves time on past all deadlines. What was counted may be gone by then.
    table = parquet.read_table(tmp_path / "ops" / "1.parquet").slice(0, 1)
    (tmp_path / "ops" / "1.parquet").unlink()
    (tmp_path / "events" / "1.parquet").unlink()
    for batch in (tmp_path / "out" / "outcomes").glob("batch=*"):
        shutil.rmtree(batch)
    place = table.column_names.index("submitted_at")
    later = table["submitted_at"].cast("int64").to_pylist()[0] + 3_600_000_000
    at = pa.array([later], pa.timestamp("us", tz="UTC"))
    table = table.set_column(place, "submitted_at", at).set_column(0, "op_id", pa.array(["z"]))
    parquet.write_table(table, tmp_path / "ops" / "2.parquet")
    parquet.write_table(pa.table({"key": ["z"], "at": at}), tmp_path / "events" / "2.parquet")
    second = dwell(*argv)
    assert second.last_line.startswith(
        "ledger identity holds: 5 operations in, 1 completed + 2 expired + 1 rejected"
    ), second
    said = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert said["waited_ms"]["p50"] == 200
    assert [row["op_id"] for row in parquet.read_table(tmp_path / "out" / "rejected").to_pylist()] == ["d"]


def test_a_stream_that_has_decided_nothing_yet_says_so(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    for name, rows in (("the orders", shop.operations), ("events", shop.events)):
        (tmp_path / name).mkdir()
        parquet.write_table(parquet.read_table(rows).slice(0, 1), tmp_path / name / "1.parquet")
    ran = dwell(
        *("settle", tmp_path / "the orders", tmp_path / "events", "--stream", "--once", "--shards", "1"),
        *("--checkpoint", tmp_path / "checkpoint", "--out", tmp_path / "out"),
    )
    assert (
        ran.last_line == "ledger identity holds: 1 operations in, 0 completed + 0 expired + 0 rejected + 1 pending"
    ), ran


def test_operations_are_counted_in_the_files_of_committed_micro_batches(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    files = [tmp_path / f"{number}.parquet" for number in range(2)]
    for number, file in enumerate(files):
        row = {"op_id": [str(number)], "submitted_at": [datetime(2026, 1, 1)], "needs": ["k"]}
        parquet.write_table(pa.table(row), file)
    source, offsets = tmp_path / "checkpoint/sources/0", tmp_path / "checkpoint/offsets"
    for place in (source, offsets):
        place.mkdir(parents=True)
    for number, file in enumerate(files):
        entry = json.dumps({"path": file.as_uri(), "timestamp": 0, "batchId": number})
        (source / str(number)).write_text(f"v1\n{entry}")
    # The third micro-batch brought the second file.
    for number, end in enumerate((0, 0, 1)):
        (offsets / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{end}}}\n{{"logOffset":{number}}}')
    orders, payments = (Input(what, "", "parquet", {}, {}, None) for what in ("operations", "events"))
    inputs = Inputs(orders, payments, within_ms=5)
    found = {last: _Source(spark, str(tmp_path / "checkpoint"), inputs, last) for last in (1, 2)}
    assert {last: one.end() for last, one in found.items()} == {1: 0, 2: 1}
    assert found[2].counted(after=-1, upto=1) == (2, 0)
    files[0].unlink()
    assert found[2].counted(after=0, upto=1) == (1, 0)
    assert found[2].counted(after=1, upto=1) == (0, 0)
    assert found[2].counted(after=-1, upto=1) is None


def test_waits_are_counted_on_spark_as_in_the_report(spark: SparkSession) -> None:  # noqa: F811
    choose = random.Random(3)
    waits = [choose.randrange(2 ** choose.randrange(1, 48)) for _ in range(500)] + [0, 1, 2**14 - 1, 2**14, 2**40 - 1]
    rows = [("completed", wait) for wait in waits] + [("expired", 5), ("pending", None)]
    found = waits_of(spark.createDataFrame(rows, "outcome string, waited_ms bigint"))
    own = WaitHistogram()
    own.add(np.array(waits))
    assert (found.counted(), found.longest, found.percentiles()) == (own.counted(), own.longest, own.percentiles())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--map", "op_id=nope"], "operations has no column 'nope'"),
        (["--format", "nonsense"], "Spark knows no format nonsense"),
        (["--format", "table"], "there is no table"),
        (["--operations-sql", "SELECT nope FROM input"], "there is no column `nope`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    dwell: Callable[..., Ran], shop: Shop, tmp_path: Path, argv: list[str], said: str
) -> None:
    inputs = ("orders", "payments") if "table" in argv else (shop.operations, shop.events)
    assert said in dwell("settle", *inputs, *argv, "--out", tmp_path / "r" / "out").problem
    assert not (tmp_path / "r").exists() or list((tmp_path / "r").iterdir()) == []


def test_a_file_cut_in_half_leaves_nothing_behind(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    whole = shop.events.read_bytes()
    shop.events.write_bytes(whole[: len(whole) // 2])
    ran = dwell("settle", shop.operations, shop.events, "--out", tmp_path / "r" / "out")
    assert ran.err.splitlines()[-1].endswith("is not a whole Parquet file: it was cut short, or --format is wrong")
    assert not (tmp_path / "r").exists() or list((tmp_path / "r").iterdir()) == []


def test_a_backlog_settled_once_goes_on_as_a_live_stream(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    for name, rows in (("ops", shop.operations), ("events", shop.events)):
        (tmp_path / name).mkdir()
        rows.rename(tmp_path / name / "1.parquet")
    argv: tuple[object, ...] = ("settle", tmp_path / "ops", tmp_path / "events", "--stream", "--shards", "1")
    argv = (*argv, "--checkpoint", tmp_path / "checkpoint", "--out", tmp_path / "out")
    assert dwell(*argv, "--once").code == 0
    live = dwell(*argv, "--for", "4s", "--idle-after", "1s")
    assert live.code == 0, live
    assert live.last_line.startswith("ledger identity holds: 4 operations in, "), live
    assert dwell(*argv, "--once").code == 0
