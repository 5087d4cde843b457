"""Which build runs: the same as the timer's, since an operation is a task of that timer."""

from __future__ import annotations

from dwell.timer import BUILD

if BUILD == "compiled":
    from dwell.purgatory.compiled import DelayedOperation, Purgatory
else:
    from dwell.purgatory.reference import DelayedOperation, Purgatory  # type: ignore[assignment]

__all__ = ["BUILD", "DelayedOperation", "Purgatory"]
