"""A result appears under its name only when it is whole.

It is written into a sibling (`NAME.partial-PID`) and renamed at the end. When anything goes wrong on the way, Ctrl-C
included, the sibling is removed. Only a process killed outright leaves one behind, and its name says what it is.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dwell.cli.ending import elsewhere
from dwell.cli.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


# Removing is tried so often, for two seconds.
_TRIES = 40


class Files(Protocol):
    """The little that is asked of a file system."""

    def exists(self, path: str) -> bool: ...
    def names(self, path: str) -> list[str]: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def read_text(self, path: str) -> str: ...
    def write_text(self, path: str, text: str) -> None: ...


class LocalFiles:
    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def names(self, path: str) -> list[str]:
        return os.listdir(path)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    def read_text(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def write_text(self, path: str, text: str) -> None:
        Path(path).write_text(text, encoding="utf-8")


class HadoopFiles:
    """Whatever Spark can write to: hdfs://, s3a://, … A rename on an object store is a copy, not one instant."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        system, place = self._at(path)
        return bool(system.exists(place))

    def names(self, path: str) -> list[str]:
        system, place = self._at(path)
        return [str(status.getPath().getName()) for status in system.listStatus(place)]

    def rename(self, old: str, new: str) -> None:
        system, place = self._at(old)
        if not system.rename(place, self._at(new)[1]):
            raise Problem(f"could not rename {old} to {new}")

    def remove(self, path: str) -> None:
        system, place = self._at(path)
        system.delete(place, True)

    def read_text(self, path: str) -> str:
        system, place = self._at(path)
        stream = system.open(place)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        system, place = self._at(path)
        stream = system.create(place, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._conf), place


def is_local(path: str) -> bool:
    return "://" not in path


def files_for(path: str, spark: SparkSession) -> Files:
    return LocalFiles() if is_local(path) else HadoopFiles(spark)


def must_be_free(files: Files, target: str, overwrite: bool) -> None:
    if not overwrite and files.exists(target):
        raise Problem(f"{target} exists: choose another place, or pass --overwrite to replace it")


@contextmanager
def whole_or_nothing(files: Files, target: str, *, overwrite: bool = False) -> Iterator[str]:
    """A place to write to, which becomes `target` if the block ends well and is removed if it does not."""
    target = target.rstrip("/")
    must_be_free(files, target, overwrite)
    partial = f"{target}.partial-{os.getpid()}"
    if is_local(target):
        Path(target).absolute().parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        if overwrite and files.exists(target):
            aside = f"{target}.replaced-{os.getpid()}"
            files.rename(target, aside)
            files.rename(partial, target)
            files.remove(aside)
        else:
            files.rename(partial, target)
    except BaseException:
        elsewhere(lambda: _clear(files, partial))
        raise


def _clear(files: Files, path: str) -> None:
    """Again and again while it is there: Spark clears up below it too, and one of the two may find a file gone."""
    for _ in range(_TRIES):
        with suppress(Exception):
            files.remove(path)
        if not files.exists(path):
            return
        time.sleep(0.05)
