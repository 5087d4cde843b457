"""How much the logs may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from dwell.errors import logger


@final
class Memory:
    """Counts upwards as batches are appended; only when the limit is near it asks what is really there."""

    def __init__(self, limit: int, measure: Callable[[], int]) -> None:
        self.limit = limit
        self._measure = measure
        # Never less than what is there: deletions are seen at the next look.
        self._at_most = 0
        self._is_full = False

    def take(self, size: int) -> bool:
        """Room for `size` more bytes? Says so once in the log when there is none."""
        if self._at_most + size > self.limit:
            self._at_most = self._measure()
            if self._at_most + size > self.limit:
                if not self._is_full:
                    self._is_full = True
                    logger.warning("the cluster's logs have reached memory_bytes=%s: records are refused", self.limit)
                return False
        self._is_full = False
        self._at_most += size
        return True
