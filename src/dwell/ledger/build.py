"""Which build runs: the compiled one, unless it is missing (said loudly) or `DWELL_REFERENCE=1` asks for the source.

Both builds are the same files, but for those with a compiled twin of their own (`.pyx`). A compiled module lies beside
its source and Python prefers it; for the reference the source is named to the import system first. Importing this
module must come before importing those it names.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

COMPILED = (
    "check",
    "operation",
    "heap",
    "key",
    "register",
    "engine",
    "replay",
    "mutex",
    "awaiting",
    "wake",
    "ticket",
    "ledger",
)


class SourceFinder:
    """Finds the sources of the modules that may be compiled."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        source = Path(__file__).with_name(f"{module}.py")
        # Inside a zip file there is no path to name, and nothing compiled to be preferred to the source either.
        if package == __package__ and module in COMPILED and source.exists():
            return spec_from_file_location(name, source)
        return None


def _missing() -> list[str]:
    folder = Path(__file__).parent
    return [name for name in COMPILED if not any((folder / f"{name}{end}").exists() for end in EXTENSION_SUFFIXES)]


BUILD = "compiled"

if os.environ.get("DWELL_REFERENCE") == "1" or _missing():
    BUILD = "readable"
    sys.meta_path.insert(0, SourceFinder)
    if os.environ.get("DWELL_REFERENCE") != "1":
        warnings.warn(
            f"dwell's ledger runs from its Python source, several times slower, because compiled modules are missing "
            f"({', '.join(_missing())}). Reinstall dwell where a C compiler is available, or set DWELL_REFERENCE=1 to "
            f"accept this.",
            RuntimeWarning,
            stacklevel=2,
        )
