"""dwell as a user installs it: a wheel in an empty virtual environment, built with a C compiler and without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SETTLE = """
import dwell.timer, dwell.purgatory, dwell.ledger
from dwell import Event, Need, SystemTimer, Wait, replay

waits = [Wait("order-1", [Need("paid/1")], delay_ms=30_000, submitted_at_ms=0)]
(outcome,) = replay(waits, [Event("paid/1", 4_200)])
with SystemTimer() as timer:
    timer.schedule(60_000, print)
    assert timer.size == 1
print(dwell.timer.BUILD, dwell.purgatory.BUILD, dwell.ledger.BUILD, outcome.outcome, outcome.waited_ms)
"""


# Compiling takes a minute on a quiet machine.
pytestmark = pytest.mark.timeout(900)


def build_wheel(place: Path, **environment: str) -> Path:
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", place, source], check=True, env=os.environ | environment, capture_output=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def run_installed(wheel: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """Install the wheel alone, and run an example where no compiler and nothing else of this machine is found."""
    venv.create(place / "empty", with_pip=False)
    python = str(place / "empty" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    return subprocess.run(
        [python, "-c", SETTLE], cwd=place, env={"PATH": ""}, check=True, capture_output=True, text=True
    )


def test_an_installed_wheel_works_in_an_empty_environment_without_a_compiler(tmp_path: Path) -> None:
    ran = run_installed(build_wheel(tmp_path), tmp_path)
    assert ran.stdout == "compiled compiled compiled completed 4200\n"
    assert ran.stderr == ""


def test_a_wheel_built_without_a_compiler_works_and_says_so_once(tmp_path: Path) -> None:
    ran = run_installed(build_wheel(tmp_path, CC="false"), tmp_path)
    assert ran.stdout == "readable readable readable completed 4200\n"
    assert ran.stderr.count("RuntimeWarning: dwell runs on its readable build") == 1


@pytest.mark.parametrize("name", ["dwell", "dwell.testing.plugin"])
def test_an_import_loads_no_layer(name: str) -> None:
    code = f"import {name}, sys; print(sorted(m for m in sys.modules if m.startswith('dwell')))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.strip() == str(sorted({"dwell", *name_and_parents(name)}))


def name_and_parents(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[: end + 1]) for end in range(len(parts))}
