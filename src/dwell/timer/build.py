"""Which build runs: the compiled one, unless it is missing (said loudly) or `DWELL_REFERENCE=1` asks for the other."""

from __future__ import annotations

import os
import warnings

from dwell.timer.reference import RecurringTask, SystemTimer, TimerCore, TimerTask

BUILD = "reference"

if os.environ.get("DWELL_REFERENCE") != "1":
    try:
        from dwell.timer.compiled import (
            RecurringTask,
            SystemTimer,
            TimerCore,
            TimerTask,
        )

        BUILD = "compiled"
    except ImportError as missing:
        warnings.warn(
            f"dwell runs on its pure-Python reference, many times slower, because its compiled core is missing "
            f"({missing}). Reinstall dwell where a C compiler is available, or set DWELL_REFERENCE=1 to accept this.",
            RuntimeWarning,
            stacklevel=2,
        )

__all__ = ["BUILD", "RecurringTask", "SystemTimer", "TimerCore", "TimerTask"]
