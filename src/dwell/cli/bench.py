"""Run the benchmarks: side by side with the peers, one table a subject, on this machine.

They live in the source tree (`benchmarks/`), not in the installed package: run this there. Without a SUBJECT all of
them run, one after the other. What follows `--` goes to the subject.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dwell.cli.problem import Problem

if TYPE_CHECKING:
    import argparse

NAME = "bench"
HELP = "run the benchmarks"
EXAMPLE = "  dwell bench\n  dwell bench timer -- --pending 100000"

# What the extra `dwell[bench]` brings: the peers, and what measures and draws.
NEEDED = ("uvloop", "apscheduler", "matplotlib", "psutil")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", nargs="?", metavar="SUBJECT", help="timer, purgatory, ledger, spark or stream")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="for the subject, after --")


def run(args: argparse.Namespace) -> int:
    root = next((place for place in _places() if (place / "benchmarks" / "__main__.py").is_file()), None)
    if root is None:
        raise Problem("there are no benchmarks here: run this in dwell's source tree, or `make bench` there")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Problem(f"the benchmarks need {', '.join(missing)}: pip install '.[bench]' in {root}")
    subject = [] if args.subject is None else [args.subject]
    argv = [sys.executable, "-m", "benchmarks", *subject, *args.arguments]
    return subprocess.run(argv, cwd=root, check=False).returncode


def _places() -> list[Path]:
    here = Path(__file__).resolve()
    return [Path.cwd(), *(parent for parent in here.parents[3:4])]
