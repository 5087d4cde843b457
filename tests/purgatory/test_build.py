"""Which build of the purgatory runs, and that its absence is not silent."""

from __future__ import annotations

import os
import subprocess
import sys

SHOW = "import dwell.purgatory as p; print(p.BUILD, p.Purgatory.__module__, p.DelayedOperation.__mro__[1].__module__)"


def python(code: str, reference: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DWELL_REFERENCE": reference}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)


def test_the_compiled_build_is_the_default() -> None:
    assert python(SHOW, "").stdout == "compiled dwell.purgatory.compiled dwell.timer._core\n"


def test_the_reference_can_be_asked_for() -> None:
    assert python(SHOW, "1").stdout == "readable dwell.purgatory.reference dwell.timer.task\n"


def test_a_missing_compiled_build_is_said_loudly() -> None:
    run = python("import sys; sys.modules['dwell.purgatory._core'] = None; " + SHOW, "")
    assert run.stdout == "readable dwell.purgatory.reference dwell.timer.task\n"
    assert "RuntimeWarning" in run.stderr
    assert "compiled" in run.stderr
