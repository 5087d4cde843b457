"""Errors in one line that says what to do."""

from __future__ import annotations

import errno
import re

from dwell.errors import DwellError


class Problem(DwellError):
    """Something the person at the command line can put right; the message says how."""


FULL = "the disk is full: make room, choose another --out, or another scratch place by --conf spark.local.dir=DIR"

EXTRAS = {"pyspark": "PySpark", "pyarrow": "PyArrow", "numpy": "NumPy"}

# What Spark, Hadoop and Arrow say in many lines, and what a person can do about it. The first that is found counts.
KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"No space left on device|Disk quota exceeded|File size limit exceeded|File too large",
        FULL,
    ),
    (r"PATH_NOT_FOUND\W+Path does not exist: (\S+?)\.? SQLSTATE", "{0} does not exist: check the path"),
    (r"UNABLE_TO_INFER_SCHEMA", "an input holds no data files of that format: check the path and --format"),
    (r"(\S+) is not a Parquet file", "{0} is not a whole Parquet file: it was cut short, or --format is wrong"),
    (
        r"(?:EOFException|Unexpected end of (?:ZLIB )?input stream|Truncated|Compressed file ended)",
        "an input file is cut short: fetch it again",
    ),
    (
        r"(?:not in gzip format|invalid header field|incorrect (?:header|data) check)",
        "an input file is damaged: fetch it again",
    ),
    (
        r"DATA_TYPE_MISMATCH\W+Encountered error while reading file (\S+?)\. ",
        "{0} has columns of another type than the files beside it: make them alike, or name one file",
    ),
    (
        r"FAILED_READ_FILE\S*\W+Encountered error while reading file (\S+?)\. ",
        "{0} cannot be read, it is damaged or not of that format: fetch it again, or check --format",
    ),
    (r"TABLE_OR_VIEW_NOT_FOUND\W+The table or view (\S+) cannot be found", "there is no table {0}: check the name"),
    (
        r"Failed to find (?:the )?data source: (\S+?)\.? ",
        "Spark knows no format {0}: add its package with --conf spark.jars.packages=…",
    ),
    (
        r"UNRESOLVED_COLUMN\S*\W+A column[^`]*name (`[^`]+`)",
        "there is no column {0}: check --operations-sql and --events-sql",
    ),
    (r"COLUMN_ALREADY_EXISTS\W+The column (`[^`]+`)", "the column {0} comes twice in one row: rename one of the two"),
    (
        # The heartbeat was another source in earlier versions, or none.
        r"There are \[\d+\] sources in the checkpoint|No usable value for offset",
        "the checkpoint is of another query, or of an earlier version of dwell: choose a new --checkpoint and --out",
    ),
    (
        r"(JAVA_GATEWAY_EXITED)",
        "Spark's Java process did not start: it needs Java 17 or newer (pip install 'dwell[java]' brings one)",
    ),
    (
        r"(OutOfMemoryError|Java heap space)",
        "Spark ran out of memory: raise --driver-memory, or --conf spark.executor.memory=… on a cluster",
    ),
    (
        r"Could not parse Master URL: '?([^']+)'?",
        "Spark knows no master {0!r}: local[*], spark://host:7077, yarn, k8s://…",
    ),
)


def in_one_line(error: BaseException) -> str:
    """What went wrong and what to do, in one line."""
    if isinstance(error, DwellError):
        return _flat(str(error))
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return FULL
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"this needs {EXTRAS[error.name]}: pip install 'dwell[spark]'"
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename} does not exist: check the path"
    if isinstance(error, (FileExistsError, NotADirectoryError)) and error.filename is not None:
        return f"{error.filename} is a file, not a directory: choose another place"
    if isinstance(error, PermissionError) and error.filename is not None:
        return f"{error.filename} may not be read or written by you: check its permissions"
    text = _everything(error)
    if ours := re.findall(r"\bdwell\.errors\.\w+: (.+)", text):  # raised in one of Spark's workers
        return _flat(ours[-1])
    for pattern, words in KNOWN:
        if found := re.search(pattern, text):
            return words.format(*(re.sub("^file:(//)?", "", group) for group in found.groups()))
    return f"{_first_cause(text) or type(error).__name__} (run again with --debug for the whole story)"


def _everything(error: BaseException) -> str:
    """The words of the error and of all that caused it; on the Java side too."""
    parts = []
    seen: BaseException | None = error
    while seen is not None:
        parts.append(str(seen))
        seen = seen.__cause__ or seen.__context__
    java = getattr(error, "java_exception", None)
    if java is not None:
        parts.append(java.toString())
    return "\n".join(parts)


def _first_cause(text: str) -> str:
    """The words of what went wrong first: Java says it last, Python at the top, a traceback in its last line."""
    if "Traceback (most recent call last)" in text:
        raised = re.findall(r"^[\w.]+(?:Error|Exception): (\S.*)$", text.partition("Traceback")[2], re.MULTILINE)
        if raised:
            return _flat(raised[0])
    causes = re.findall(r"^\s*(?:Caused )?by: [\w.$]+: (\S.*)$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip() and "error occurred while calling" not in line]
    return _flat(causes[-1] if causes else lines[0] if lines else "")


def _flat(text: str) -> str:
    return " ".join(text.split())
