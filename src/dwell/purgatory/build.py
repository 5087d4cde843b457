"""Which build runs: the same as the timer's, since an operation is a task of that timer."""

from __future__ import annotations

import warnings

from dwell.purgatory.reference import DelayedOperation, Purgatory
from dwell.timer import BUILD as TIMER_BUILD

BUILD = "readable"

if TIMER_BUILD == "compiled":
    try:
        from dwell.purgatory.compiled import DelayedOperation, Purgatory

        BUILD = "compiled"
    except ImportError as missing:
        warnings.warn(
            f"dwell's purgatory runs on its pure-Python reference, many times slower, because its compiled core is "
            f"missing ({missing}). Reinstall dwell where a C compiler is available, or set DWELL_REFERENCE=1.",
            RuntimeWarning,
            stacklevel=2,
        )

__all__ = ["BUILD", "DelayedOperation", "Purgatory"]
