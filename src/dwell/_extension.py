"""Chooses the build, once for all layers: the compiled modules, or the readable ones that they are twins of.

The compiled build runs unless `DWELL_REFERENCE=1` asks for the readable one, or a compiled module is missing because
there was no C compiler when dwell was installed. Then everything works on the readable build, and a warning says so.
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from types import ModuleType

# The compiled module that was found missing. The others are not tried then: one build for all layers.
_missing: ImportError | None = None


def load(name: str) -> ModuleType | None:
    """The compiled module `name`, such as `dwell.timer._wheels`, or None if the readable build runs."""
    global _missing
    if os.environ.get("DWELL_REFERENCE") == "1" or _missing is not None:
        return None
    try:
        return import_module(name)
    except ImportError as missing:
        _missing = missing
    warnings.warn(
        f"dwell runs on its readable build, many times slower, because a compiled module is missing ({_missing}). "
        f"Reinstall dwell where a C compiler is available, or set DWELL_REFERENCE=1 to accept this.",
        RuntimeWarning,
        stacklevel=2,
    )
    return None
