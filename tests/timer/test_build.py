"""Which build runs, and that its absence is not silent."""

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


def test_the_reference_can_be_asked_for() -> None:
    run = python(
        "import dwell.timer; print(dwell.timer.BUILD, dwell.timer.SystemTimer.__module__)",
        DWELL_REFERENCE="1",
    )
    assert run.stdout == "reference dwell.timer.reference\n"
    assert run.stderr == ""


def test_a_missing_compiled_build_is_said_loudly() -> None:
    run = python(
        "import sys; sys.modules['dwell.timer._core'] = None; import dwell.timer; print(dwell.timer.BUILD)",
        DWELL_REFERENCE="",
    )
    assert run.stdout == "reference\n"
    assert "RuntimeWarning" in run.stderr
    assert "compiled core is missing" in run.stderr
