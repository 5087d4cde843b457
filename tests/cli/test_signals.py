"""The program as a process with a Spark of its own, ended in the middle: what is left is whole or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shop

pytestmark = pytest.mark.spark

# Runs commands one after the other in one process, so that they share one Java process too. A command given with a
# pattern gets the signal as soon as a file matches it.
PROGRAM = textwrap.dedent(
    """
    import glob, json, os, signal, sys, threading, time
    from dwell.cli import main

    def end_when(pattern, number):
        while not glob.glob(pattern, recursive=True):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for argv, pattern, number in json.loads(sys.argv[1]):
        if pattern:
            threading.Thread(target=end_when, args=(pattern, number), daemon=True).start()
        print("exit code", main([*argv, "--master", "local[2]"]), flush=True)
    """
)
SIGINT, SIGTERM = 2, 15


def run(*commands: tuple[list[object], object, int]) -> tuple[list[str], list[str]]:
    """The lines on standard output and on standard error."""
    said = json.dumps(commands, default=str)
    ran = subprocess.run([sys.executable, "-c", PROGRAM, said], capture_output=True, text=True, check=True, timeout=240)
    return ran.stdout.splitlines(), ran.stderr.splitlines()


def test_a_session_of_its_own_to_the_end_and_ctrl_c_in_mid_write(tmp_path: Path) -> None:
    whole, big = tmp_path / "whole", tmp_path / "big"
    # Hidden files: the ones a task of Spark's is writing.
    at_work = f"{big}.partial-*/operations/_temporary/**/*.parquet"
    out, err = run(
        (["sample", "orders", whole, "--rows", "1k"], None, 0),
        (["sample", "produce", big, "--rows", "50M"], at_work, SIGINT),
    )
    assert out == [f"{whole}/operations", f"{whole}/events", "exit code 0", "exit code 130"]
    assert err[-1] == "dwell sample: interrupted, nothing was left behind"
    # Spark itself says nothing.
    assert all(line.startswith(("1,000 orders: ", "their events: ", "50,000,000 produce: ")) for line in err[:-1]), err
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


@pytest.mark.slow
def test_sigterm_in_mid_write(tmp_path: Path) -> None:
    at_work = f"{tmp_path}/big.partial-*/operations/_temporary/**/*.parquet"
    out, err = run((["sample", "produce", tmp_path / "big", "--rows", "50M"], at_work, SIGTERM))
    assert (out, err[-1]) == (["exit code 130"], "dwell sample: interrupted, nothing was left behind")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_a_running_stream_ends_whole_and_goes_on(shop: Shop, tmp_path: Path, number: int) -> None:
    for path in (shop.operations, shop.events):
        (tmp_path / path.stem).mkdir()
        path.rename(tmp_path / path.stem / path.name)
    argv: list[object] = ["settle", tmp_path / "orders", tmp_path / "payments", "--stream", "--idle-after", "1s"]
    argv += ["--checkpoint", tmp_path / "checkpoint", "--out", tmp_path / "out", "--shards", "2"]
    out, err = run((argv, f"{tmp_path}/checkpoint/commits/0", number), ([*argv, "--for", "40s"], None, 0))
    identity = "ledger identity holds: 4 operations in, 1 completed + 2 expired + 1 rejected + 0 pending"
    codes = [line for line in out if line.startswith(("exit code", "ledger", "LEDGER"))]
    assert codes[0].startswith("ledger identity holds: 4 operations in, ")
    assert codes[1:] == ["exit code 0", identity, "exit code 0"]
    assert "ending the stream, then summing up" in err
    rows = parquet.read_table(tmp_path / "out" / "outcomes").to_pylist()
    assert sorted(row["op_id"] for row in rows) == ["a", "b", "c", "d"]
    assert not list(tmp_path.glob("out/outcomes/_*"))
