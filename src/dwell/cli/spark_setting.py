"""What Spark is told by others than our command line: by spark-submit, the environment and spark-defaults.conf.

Whoever runs `spark-submit --master yarn --conf …` has said where and how Spark runs. What the command line would choose
by itself must yield to that.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Arguments of spark-submit that are settings by another name.
NAMED = {"--master": "spark.master", "--driver-memory": "spark.driver.memory", "--name": "spark.app.name"}


def is_under_spark_submit(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit runs this program: then its Java process is there already."""
    return "PYSPARK_GATEWAY_PORT" in environ


def told_elsewhere() -> dict[str, str]:
    """The settings of Spark that are given from outside."""
    if not is_under_spark_submit():
        return told_beforehand(os.environ)
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def told_beforehand(environ: Mapping[str, str]) -> dict[str, str]:
    """The same before there is a Java process, from the places where PySpark's own spark-submit will find it."""
    told = {"spark.master": environ["MASTER"]} if environ.get("MASTER") else {}
    argued = dict(_arguments(environ.get("PYSPARK_SUBMIT_ARGS", "")))
    file = argued.pop("--properties-file", None) or _defaults_file(environ)
    return told | (_properties(Path(file)) if file else {}) | argued


def _arguments(said: str) -> Iterator[tuple[str, str]]:
    words = iter(shlex.split(said))
    for word in words:
        name, equals, value = word.partition("=")
        if name in (*NAMED, "--conf", "-c", "--properties-file") and not equals:
            value = next(words, "")
        if name in NAMED:
            yield NAMED[name], value
        elif name in ("--conf", "-c"):
            key, _, setting = value.partition("=")
            yield key, setting
        elif name == "--properties-file":
            yield name, value


def _defaults_file(environ: Mapping[str, str]) -> str | None:
    folder = environ.get("SPARK_CONF_DIR")
    if folder is None:
        from pyspark.find_spark_home import _find_spark_home

        folder = str(Path(environ.get("SPARK_HOME") or _find_spark_home(), "conf"))
    file = Path(folder, "spark-defaults.conf")
    return str(file) if file.is_file() else None


def _properties(file: Path) -> dict[str, str]:
    """A file of Java's kind: `key value`, `key=value` or `key: value`, a line each."""
    found = {}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        pair = re.fullmatch(r"\s*([^#!\s=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*", line)
        if pair is not None:
            found[pair[1]] = pair[2]
    return found
