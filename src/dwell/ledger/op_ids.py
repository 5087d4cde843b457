"""Which operations are known by their op_id: all that wait, and those settled lately."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dwell.contract.order import Content
    from dwell.ledger.operation import Operation


class OpIds:
    """A settled operation is forgotten `retention_ms` after its outcome; None: never."""

    def __init__(self, retention_ms: int | None) -> None:
        self.operations: dict[str, Operation] = {}  # the one that counts under each op_id
        self._rejected: dict[str, dict[Content, Operation]] = {}  # by op_id and content, the oldest first
        self._retention_ms = retention_ms
        self._settled: deque[Operation] = deque()  # the oldest first

    def find_rejected(self, op_id: str, content: Content) -> Operation | None:
        """The rejected operation that a row with this content repeats."""
        return self._rejected.get(op_id, {}).get(content)

    def add_rejected(self, op_id: str, content: Content, operation: Operation) -> None:
        self._rejected.setdefault(op_id, {})[content] = operation
        self.settle(operation)

    def settle(self, operation: Operation) -> None:
        """From now on the operation may be forgotten."""
        if self._retention_ms is not None:
            self._settled.append(operation)

    def forget(self, now_ms: int) -> None:
        """Forget what was settled more than the retention ago."""
        while self._settled and self._settled[0].finished_at_ms + (self._retention_ms or 0) < now_ms:
            operation = self._settled.popleft()
            assert operation.op_id is not None
            if self.operations.get(operation.op_id) is operation:
                del self.operations[operation.op_id]
            else:
                rejected = self._rejected[operation.op_id]
                del rejected[next(iter(rejected))]
                if not rejected:
                    del self._rejected[operation.op_id]
