"""What continuous integration runs goes on without a browser, and a run says at its end what it left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.skipped import said

RUN = Path(__file__).parent.parent / ".ci" / "run"


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/bash", RUN], env={"PATH": str(path)}, capture_output=True, text=True, check=False)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH on which `make` only says what it was asked for, and this is a machine of root."""
    for name, does in {"make": 'echo "make $1"', "id": "echo 0", "dirname": f"echo {RUN.parent}"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_a_browser_that_cannot_be_installed_is_said_and_the_rest_runs(programs: Path) -> None:
    (programs / "apt-get").write_text("#!/bin/sh\necho noise\nexit 100\n")
    (programs / "apt-get").chmod(0o755)
    ran = run(programs)
    assert ran.returncode == 0, ran
    assert ran.stdout.splitlines() == [
        "no Chromium here, and apt-get could not install it: the browser tests will be skipped",
        "make check",
        "make test",
    ]


def test_a_browser_is_installed_quietly(programs: Path) -> None:
    (programs / "apt-get").write_text(f'#!/bin/sh\necho "$*" >> {programs}/asked\n')
    (programs / "apt-get").chmod(0o755)
    ran = run(programs)
    assert ran.stdout.splitlines() == ["installed Chromium for the browser tests", "make check", "make test"]
    asked = (programs / "asked").read_text().splitlines()
    assert asked == ["-qq update", "-qq install -y --no-install-recommends chromium"]


def test_a_browser_that_is_there_is_enough(programs: Path) -> None:
    (programs / "chromium").write_text("#!/bin/sh\n")
    (programs / "chromium").chmod(0o755)
    assert run(programs).stdout.splitlines() == ["make check", "make test"]


def test_the_last_line_of_a_run_says_what_was_skipped_and_why(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.skip(reason='no moon')\ndef test_a(): ...\n"
        "@pytest.mark.skip(reason='no moon')\ndef test_b(): ...\n"
        "def test_c(): pytest.skip('no sun')\n"
        "def test_d(): ...\n"
    )
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.skipped",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    ran = subprocess.run(argv, cwd=RUN.parent.parent, capture_output=True, text=True, check=True)
    closing, last = ran.stdout.splitlines()[-2:]
    assert "1 passed, 3 skipped" in closing
    assert last == "skipped: 2 because: no moon; 1 because: no sun"


def test_nothing_skipped_is_said_too() -> None:
    assert said([]) == "skipped: nothing"
