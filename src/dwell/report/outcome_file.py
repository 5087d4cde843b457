"""Outcomes as an Arrow dataset: a directory `dwell settle` wrote, or any Parquet with the outcome's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow import ArrowInvalid, dataset, fs

from dwell.errors import InvalidArgument

NEEDED = ("op_id", "outcome", "finished_at", "waited_ms")


def open_outcomes(place: str) -> Any:
    """The dataset at `place`; an error that says what is missing if these are no outcomes."""
    if "://" in place:
        system, path = fs.FileSystem.from_uri(place)
        return _checked(dataset.dataset(path, filesystem=system, format="parquet"), place)
    root = Path(place)
    if not root.exists():
        raise InvalidArgument(f"{place} does not exist: give the directory `dwell settle --out` wrote")
    if (root / "outcomes").is_dir():
        root = root / "outcomes"
    files = [root] if root.is_file() else sorted(root.rglob("*.parquet"))
    # Spark's and our own half-done work starts with one of these.
    files = [file for file in files if not any(part[0] in "._" for part in file.relative_to(root).parts)]
    if not files:
        raise InvalidArgument(f"{place} holds no Parquet files: give the directory `dwell settle --out` wrote")
    try:
        return _checked(dataset.dataset([str(file) for file in files], format="parquet"), place)
    except ArrowInvalid as error:
        why = str(error).splitlines()[0].rpartition("Could not open ")[2]
        raise InvalidArgument(f"{place} holds a file that is no whole Parquet file: {why}") from error


def _checked(rows: Any, place: str) -> Any:
    missing = [name for name in NEEDED if name not in rows.schema.names]
    if missing:
        raise InvalidArgument(
            f"{place} holds no outcomes: it has no column {', '.join(missing)}, only {', '.join(rows.schema.names)}"
        )
    return rows
