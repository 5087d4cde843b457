"""The columns of operations, events and outcomes as data, with types in Spark's words, and the values they hold."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Column(NamedTuple):
    name: str
    type: str


OPERATIONS: Final = (
    Column("op_id", "string"),
    Column("submitted_at", "timestamp"),
    Column("delay_ms", "bigint"),
    Column("needs", "array<struct<key:string,level:bigint>>"),
    Column("quorum", "int"),
    Column("volume", "bigint"),
)

EVENTS: Final = (
    Column("key", "string"),
    Column("at", "timestamp"),
    Column("level", "bigint"),
)

OUTCOMES: Final = (
    Column("op_id", "string"),
    Column("outcome", "string"),
    Column("finished_at", "timestamp"),
    Column("waited_ms", "bigint"),
    Column("completed_by", "string"),
    Column("reason", "string"),
)

# The values of the column `outcome`. Only a live ledger says "cancelled".
COMPLETED: Final = "completed"
EXPIRED: Final = "expired"
REJECTED: Final = "rejected"
CANCELLED: Final = "cancelled"
PENDING: Final = "pending"

OutcomeName = Literal["completed", "expired", "rejected", "cancelled", "pending"]

# Levels and volumes.
MIN_BIGINT: Final = -(2**63)
MAX_BIGINT: Final = 2**63 - 1


def is_bigint(number: object) -> bool:
    """Whether this is an integer that a column of type `bigint` can hold."""
    return isinstance(number, int) and MIN_BIGINT <= number <= MAX_BIGINT
