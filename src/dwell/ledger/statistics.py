"""The counts of a ledger at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatistics:
    """`opened == completed + expired + rejected + cancelled + pending`, at every moment."""

    opened: int  # operations taken in, exact repeats not counted
    completed: int
    expired: int
    rejected: int
    cancelled: int
    pending: int
    repeated: int  # rows that were exact repeats of an operation
    recorded: int  # events taken in
    set_aside: int  # events without key or time, or with a time out of range
    keys: int  # keys remembered
    operations: int  # op_ids remembered, pending ones included
