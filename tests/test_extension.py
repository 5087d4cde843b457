"""Which build runs, and that a missing one is said once and loudly."""

from __future__ import annotations

import os
import subprocess
import sys


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_compiled_build_is_the_default() -> None:
    assert python("import dwell.timer; print(dwell.timer.BUILD)", DWELL_REFERENCE="").stdout == "compiled\n"


def test_the_readable_build_can_be_asked_for() -> None:
    run = python("import dwell.timer; print(dwell.timer.BUILD)", DWELL_REFERENCE="1")
    assert (run.stdout, run.stderr) == ("readable\n", "")


def test_a_missing_compiled_module_is_said_once_and_loudly() -> None:
    code = """
import sys, warnings
sys.modules["dwell.timer._wheels"] = None
warnings.simplefilter("always")
import dwell.timer, dwell.aio
from dwell._extension import load
print(dwell.timer.BUILD, load("dwell.timer._wheels"))
"""
    run = python(code, DWELL_REFERENCE="")
    assert run.stdout == "readable None\n"
    assert run.stderr.count("RuntimeWarning") == 1
    assert "a compiled module is missing" in run.stderr


def test_the_layers_of_one_build_are_in_use_while_its_tests_run(build: object) -> None:
    import dwell
    import dwell.timer

    assert build.name == dwell.timer.BUILD  # type: ignore[attr-defined]
    assert dwell.SystemTimer is build.SystemTimer  # type: ignore[attr-defined]
