"""Why an operation is rejected: one table for replay, the live ledger, Spark and the documents.

A reason is `<column> <problem>` or, where a value is to blame, `<column> <problem>: <value>`. Where an operation has
several faults the first row of the table that applies is its reason.
"""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """In the order they are looked for; the comment says which value follows the colon."""

    OP_ID_NULL = "op_id is null"
    OP_ID_EMPTY = "op_id is empty"
    SUBMITTED_AT_NULL = "submitted_at is null"
    SUBMITTED_AT_RANGE = "submitted_at is out of range"  # milliseconds since 1970
    DELAY_NULL = "delay_ms is null"
    DELAY_NEGATIVE = "delay_ms is negative"  # the delay
    DEADLINE_RANGE = "delay_ms puts the deadline out of range"  # the delay
    NEEDS_NULL = "needs is null"
    NEEDS_EMPTY = "needs is empty"
    KEY_NULL = "needs has a null key"
    KEY_REPEATED = "needs repeats a key"  # the smallest repeated key
    QUORUM_RANGE = "quorum is outside 1 to the number of needs"  # the quorum
    VOLUME_NOT_POSITIVE = "volume is not positive"  # the volume
    VOLUME_WITH_QUORUM = "volume excludes quorum"  # the quorum
    VOLUME_WITHOUT_LEVEL = "volume needs a level for every key"  # the smallest key that has none
    CONTENT_DIFFERS = "op_id was used before with other content"  # the op_id
    TOO_LATE = "submitted_at is older than the allowed lateness"  # milliseconds since 1970; streams only

    def text(self, value: object = None) -> str:
        return self.value if value is None else f"{self.value}: {value}"
