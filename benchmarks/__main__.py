"""`python -m benchmarks [SUBJECT [OPTIONS]]`: one subject, or all of them one after the other."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

SUBJECTS = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in SUBJECTS:
        importlib.import_module(f"benchmarks.bench_{sys.argv[1]}").main(sys.argv[2:])
    elif len(sys.argv) == 1:
        for subject in SUBJECTS:
            importlib.import_module(f"benchmarks.bench_{subject}").main([])
    else:
        sys.exit(f"usage: python -m benchmarks [{' | '.join(SUBJECTS)}] [options]")


if __name__ == "__main__":
    main()
