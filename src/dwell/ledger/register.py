# cython: annotation_typing=False, boundscheck=False, wraparound=False
"""Which operations are known by their op_id: all that wait, and those settled lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.ledger.heap import TOLERATED

if TYPE_CHECKING:
    from dwell.ledger.check import Content
    from dwell.ledger.operation import Operation


class Register:
    """A settled operation is forgotten `retention_ms` after its outcome; None: never."""

    def __init__(self, retention_ms: int | None) -> None:
        self.operations: dict[str, Operation] = {}  # the first under each op_id
        self._refused: dict[str, dict[Content, Operation]] = {}  # the rejected ones of an op_id, the oldest first
        self._forgets = retention_ms is not None
        self._retention_ms = retention_ms or 0
        self._past: list[Operation | None] = []  # settled, the oldest first; None: forgotten, so many
        self._forgotten = 0

    def refuse(self, op: Operation, content: Content) -> Operation:
        """Keep a rejected operation, or give the one it repeats."""
        refused = self._refused.setdefault(op.op_id, {})
        known = refused.setdefault(content, op)
        if known is op:
            self.retire(op)
        return known

    def retire(self, op: Operation) -> None:
        """It is settled."""
        if self._forgets:
            self._past.append(op)

    def forget(self, now_ms: int) -> None:
        """Forget what has had its time."""
        past = self._past
        while self._forgotten < len(past):
            op = past[self._forgotten]
            assert op is not None
            if op.finished_at_ms + self._retention_ms >= now_ms:
                break
            past[self._forgotten] = None
            self._forgotten += 1
            if self.operations.get(op.op_id) is op:
                del self.operations[op.op_id]
            else:
                refused = self._refused[op.op_id]
                del refused[next(iter(refused))]
                if not refused:
                    del self._refused[op.op_id]
        if self._forgotten > TOLERATED and 2 * self._forgotten > len(past):
            del past[: self._forgotten]
            self._forgotten = 0
