"""The columns as data agree with the rows of the ledger, and the package needs nothing else of dwell."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from dwell.contract.columns import EVENTS, MAX_BIGINT, MIN_BIGINT, OPERATIONS, OUTCOMES, Column, is_bigint
from dwell.ledger import Event, Need, Outcome, Wait

CONTRACT = Path(__file__).parents[2] / "src" / "dwell" / "contract"


def names(columns: tuple[Column, ...]) -> set[str]:
    """As fields of rows: a timestamp is in milliseconds there."""
    return {f"{column.name}_ms" if column.type == "timestamp" else column.name for column in columns}


def test_the_columns_are_the_fields_of_the_rows() -> None:
    assert names(OPERATIONS) == set(Wait._fields)
    assert names(EVENTS) == set(Event._fields)
    assert names(OUTCOMES) == set(Outcome._fields)
    assert "struct<key:string,level:bigint>" in dict(OPERATIONS)["needs"]
    assert Need._fields == ("key", "level")


def test_a_bigint_has_64_bits() -> None:
    assert [is_bigint(number) for number in (MIN_BIGINT - 1, MIN_BIGINT, MAX_BIGINT, MAX_BIGINT + 1)] == [
        False,
        True,
        True,
        False,
    ]
    assert not is_bigint("1")


def test_the_package_is_imported_from_a_zip_file_without_the_rest_of_dwell(tmp_path: Path) -> None:
    archive = tmp_path / "dwell.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("dwell/__init__.py", "")
        for source in CONTRACT.glob("*.py"):
            packed.write(source, f"dwell/contract/{source.name}")
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from dwell.contract import columns, order, reason, time_range\n"
        "print(reason.__file__.startswith(sys.path[0]), order.order((None,) * 6)[0])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True (False, 0)"
