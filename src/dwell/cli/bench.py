"""Run the benchmarks: side by side with the peers, one table a subject, on this machine.

They live in the source tree (`benchmarks/`), not in the installed package: run this there. What follows `--` goes to
them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dwell.cli.problem import Problem

if TYPE_CHECKING:
    import argparse

NAME = "bench"
HELP = "run the benchmarks"
EXAMPLE = "  dwell bench\n  dwell bench -- --help"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="for the benchmarks, after --")


def run(args: argparse.Namespace) -> int:
    root = next((place for place in _places() if (place / "benchmarks" / "__main__.py").is_file()), None)
    if root is None:
        raise Problem("there are no benchmarks here: run this in dwell's source tree, or `make bench` there")
    return subprocess.run([sys.executable, "-m", "benchmarks", *args.arguments], cwd=root, check=False).returncode


def _places() -> list[Path]:
    here = Path(__file__).resolve()
    return [Path.cwd(), *(parent for parent in here.parents[3:4])]
