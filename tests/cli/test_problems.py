"""Whatever goes wrong: one line that says what to do, exit code 2, and nothing half-written left behind as if whole."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dwell.cli.main import COMMANDS, main
from dwell.cli.problem import in_one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran, Shop


def settle(dwell: Callable[..., Ran], tmp_path: Path, *argv: object) -> str:
    """The problem `dwell settle` names; nothing may be left in its output's place, or beside it."""
    out = tmp_path / "results" / "out"
    said = dwell("settle", *argv, "--engine", "memory", "--out", out).problem
    assert not out.parent.exists() or not list(out.parent.iterdir())
    return said


def test_a_path_that_does_not_exist(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    said = settle(dwell, tmp_path, tmp_path / "nowhere.parquet", shop.events)
    assert "nowhere.parquet does not exist: check the path" in said


def test_a_directory_without_data(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no data files" in settle(dwell, tmp_path, tmp_path / "empty", shop.events)


def test_a_column_that_is_missing_is_named_with_what_to_do(
    dwell: Callable[..., Ran], shop: Shop, tmp_path: Path
) -> None:
    said = settle(dwell, tmp_path, shop.events, shop.events)
    assert said == (
        "dwell settle: operations has no column 'op_id' (it has key, at): name yours with --map op_id=COLUMN"
    )


@pytest.mark.parametrize(
    ("map_", "said"),
    [
        ("op_id=nope", "operations has no column 'nope'; it has op_id, submitted_at, delay_ms, needs, shop"),
        ("opid=a", "there is no column of that name, choose from op_id, submitted_at"),
        ("op_id", "'op_id' is not of the form NAME=VALUE"),
        ("submitted_at=shop", None),
        ("delay_ms=needs", "the column 'delay_ms' must be a whole number, it is list"),
    ],
)
def test_a_mapping_that_cannot_be(
    dwell: Callable[..., Ran], shop: Shop, tmp_path: Path, map_: str, said: str | None
) -> None:
    argv = ("settle", shop.operations, shop.events, "--engine", "memory", "--map", map_, "--out", tmp_path / "out")
    ran = dwell(*argv)
    if said is None:  # text that is no time: each row is rejected for it
        assert ran.last_line.endswith("0 completed + 0 expired + 4 rejected + 0 pending")
    else:
        assert said in ran.problem


def test_an_empty_file(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    assert "empty.csv is empty, it has not even a header" in settle(
        dwell, tmp_path, tmp_path / "empty.csv", shop.events
    )


@pytest.mark.parametrize("name", ["cut.parquet", "cut.csv.gz"])
def test_a_file_cut_in_half(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path, name: str) -> None:
    rows = "".join(f"{i},2026-03-02T00:00:00Z,{i * i * 7919 % 10_007},k\n" for i in range(5000))
    whole = shop.operations.read_bytes()
    if name.endswith("gz"):
        whole = gzip.compress(f"op_id,submitted_at,delay_ms,needs\n{rows}".encode())
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    said = settle(dwell, tmp_path, tmp_path / name, shop.events)
    assert name in said
    assert "fetch it again" in said


def test_an_output_that_exists_is_not_touched(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").touch()
    argv = ("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert "exists: choose another place, or pass --overwrite" in dwell(*argv).problem
    assert (tmp_path / "out" / "precious").exists()
    assert dwell(*argv, "--overwrite").code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["outcomes", "rejected", "summary.json"]
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name or "replaced" in path.name] == []


@pytest.mark.parametrize("name", ["orders.parquet", "orders.parquet/inside", ""])
def test_an_input_is_never_replaced(dwell: Callable[..., Ran], shop: Shop, name: str) -> None:
    before = shop.operations.read_bytes()
    out = shop.operations.parent / name
    said = dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", out, "--overwrite").problem
    assert "overlap: choose another --out" in said
    assert shop.operations.read_bytes() == before


@pytest.mark.parametrize("out", ["", ".", "..", "/", "x/.."])
def test_an_output_that_cannot_have_a_name_of_its_own(dwell: Callable[..., Ran], shop: Shop, out: str) -> None:
    said = dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", out).problem
    assert "name a directory of its own" in said


def test_an_output_below_a_file(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    argv = ("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "file" / "out")
    assert dwell(*argv).problem.endswith("file is a file, not a directory: choose another place")


def test_columns_with_another_sign_between_them(dwell: Callable[..., Ran], shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "semi.csv").write_text("op_id;submitted_at;delay_ms;needs\na;2026-03-02T00:00:00Z;1000;a\n")
    argv = ("settle", tmp_path / "semi.csv", shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert dwell(*argv).problem.endswith("pass --option sep=';'")
    assert dwell(*argv, "--option", "sep=;").last_line.endswith("1 completed + 0 expired + 0 rejected + 0 pending")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--within", "soon"], "'soon' is not a duration: write 250ms, 30s, 5m, 1h30m or 7d"),
        (["--as-of", "noon"], "'noon' is not a time"),
        (["--format", "kafka"], "--engine memory reads Parquet, CSV and JSON lines"),
        (["--operations-sql", "select 1"], "--operations-sql needs Spark"),
        (["--checkpoint", "x"], "--checkpoint is for streams: add --stream"),
        (["--stream"], "a stream needs --checkpoint DIR"),
        (["--nonsense"], "unrecognized arguments: --nonsense; see `dwell"),
    ],
)
def test_arguments_that_do_not_go(
    dwell: Callable[..., Ran], shop: Shop, tmp_path: Path, argv: list[str], said: str
) -> None:
    assert said in settle(dwell, tmp_path, shop.operations, shop.events, *argv)


def test_a_full_disk(shop: Shop, tmp_path: Path) -> None:
    # A limit on the size of a file is a disk that is full, for whoever writes it.
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from dwell.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    argv = [
        "settle",
        str(shop.operations),
        str(shop.events),
        "--engine",
        "memory",
        "--out",
        str(tmp_path / "r" / "out"),
    ]
    ran = subprocess.run([sys.executable, "-B", "-c", code, *argv], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("dwell settle: the disk is full: make room, choose another --out")
    assert ran.stderr.count("\n") == 1
    assert list((tmp_path / "r").iterdir()) == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, dwell: Callable[..., Ran], shop: Shop, tmp_path: Path, end: signal.Signals
) -> None:
    from pyarrow import parquet

    write = parquet.write_table

    def interrupted(table: object, path: Path) -> None:
        write(table, path)
        os.kill(os.getpid(), end)

    before = signal.getsignal(signal.SIGTERM)
    # A shell starts what it puts in the background with Ctrl-C ignored; here it shall count.
    at_ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(parquet, "write_table", interrupted)
    out = tmp_path / "results" / "out"
    ran = dwell("settle", shop.operations, shop.events, "--engine", "memory", "--out", out)
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGINT, at_ctrl_c)
    assert (ran.code, ran.err) == (130, "dwell settle: interrupted, nothing was left behind\n")
    assert list(out.parent.iterdir()) == []


def test_an_error_nobody_foresaw_is_one_line_and_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, dwell: Callable[..., Ran], shop: Shop, tmp_path: Path
) -> None:
    from dwell.cli import memory_job

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("boiler\nburst")

    monkeypatch.setattr(memory_job, "replay", fail)
    argv = ("settle", shop.operations, shop.events, "--engine", "memory", "--out", tmp_path / "out")
    assert dwell(*argv).problem == "dwell settle: boiler (run again with --debug for the whole story)"
    assert "Traceback" in dwell(*argv, "--debug").err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
            "this needs PySpark: pip install 'dwell[spark]'",
        ),
        (RuntimeError("x: java.io.IOException: No space left on device"), "the disk is full"),
        (RuntimeError("[PATH_NOT_FOUND] Path does not exist: file:/a/b. SQLSTATE: 42K03"), "/a/b does not exist"),
        (RuntimeError("[X] Failed to find data source: kafka. Please deploy"), "no format kafka: add its package with"),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), "raise --driver-memory"),
        (
            RuntimeError("by a worker: Traceback …\n  File\ndwell.errors.InvalidArgument: 4 shards, not 16\n"),
            "4 shards, not 16",
        ),
        (
            RuntimeError("Traceback (most recent call last):\n  File\nKeyError: no such thing\n at x"),
            "no such thing (run",
        ),
        (RuntimeError("file:/a/x.parquet is not a Parquet file. Expected"), "/a/x.parquet is not a whole Parquet file"),
        (
            RuntimeError("There are [2] sources in the checkpoint offsets and now there are [3] sources requested"),
            "an earlier version of dwell: choose a new --checkpoint and --out",
        ),
        (
            RuntimeError("[STREAM_FAILED] Query terminated with exception: No usable value for offset"),
            "an earlier version of dwell: choose a new --checkpoint and --out",
        ),
    ],
)
def test_what_spark_says_at_length_is_said_shortly(error: Exception, said: str) -> None:
    assert said in in_one_line(error)


@pytest.mark.parametrize("command", [module.NAME for module in COMMANDS])
def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"example:\n  dwell {command}" in capsys.readouterr().out
