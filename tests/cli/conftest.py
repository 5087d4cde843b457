"""Small inputs on disk, and the command line called as a function."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from dwell.cli import main, session
from tests.spark.conftest import spark  # noqa: F401  (a fixture)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2026, 3, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.out.strip().splitlines()[-1]

    @property
    def problem(self) -> str:
        """The one line of an error."""
        lines = self.err.strip().splitlines()
        assert self.code == 2, self
        assert not self.out
        assert len(lines) == 1, self.err
        return lines[0]


Dwell = "Callable[..., Ran]"


@pytest.fixture
def dwell(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command in this process."""

    def run(*argv: object) -> Ran:
        try:
            code = main([str(arg) for arg in argv])
        except SystemExit as end:
            code = int(end.code or 0)
        logging.disable(logging.NOTSET)
        said = capsys.readouterr()
        return Ran(code=code, out=said.out, err=said.err)

    return run


@pytest.fixture
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Commands run in the Spark session of the tests, in place of one of their own."""

    @contextmanager
    def shared(args: object, *, stream: bool = False) -> Iterator[SparkSession]:
        own = spark.newSession()
        for name, value in session.TIMES.items():
            own.conf.set(name, value)
        own.conf.set("spark.sql.shuffle.partitions", "1" if stream else "2")
        if stream:
            own.conf.set("spark.sql.streaming.stateStore.providerClass", session.ROCKSDB)
        yield own

    monkeypatch.setattr(session, "session", shared)


@dataclass(frozen=True, slots=True)
class Shop:
    """Four orders: paid at once, paid too late, never paid, and one with a delay no order can have."""

    operations: Path
    events: Path


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    (tmp_path / "in").mkdir()
    operations, events = tmp_path / "in" / "orders.parquet", tmp_path / "in" / "payments.parquet"
    need = pa.list_(pa.struct([("key", pa.string()), ("level", pa.int64())]))
    ids = ["a", "b", "c", "d"]
    rows = {
        "op_id": ids,
        "submitted_at": pa.array([START] * 4, pa.timestamp("us", tz="UTC")),
        "delay_ms": pa.array([1000, 1000, 1000, -1], pa.int64()),
        "needs": pa.array([[{"key": op_id, "level": None}] for op_id in ids], need),
        "shop": ["north", "south", "south", "north"],
    }
    parquet.write_table(pa.table(rows), operations)
    paid = [START.replace(microsecond=200_000), START.replace(second=2)]
    parquet.write_table(pa.table({"key": ["a", "b"], "at": pa.array(paid, pa.timestamp("us", tz="UTC"))}), events)
    return Shop(operations, events)
