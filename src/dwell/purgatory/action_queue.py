"""What callbacks set off, kept until they have returned.

A callback of an operation runs with that operation's lock held. Suppose it completes another operation, whose callback
completes a third. If each ran inside the one before, a chain of operations would grow the stack without bound, and two
threads whose chains meet could wait for each other's locks for ever.

So each thread is *busy with* at most one operation. What the callbacks of that operation set off is put into a queue of
the thread, and runs in order after they have returned and the operation's lock is released.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import final


@final
class ActionQueue(threading.local):
    """One per thread: the operation whose callbacks run, and what they have set off."""

    def __init__(self) -> None:
        self.busy_with: object = None
        self._actions: deque[Callable[[], object]] = deque()
        self._is_draining = False

    def put(self, action: Callable[[], object]) -> None:
        self._actions.append(action)

    def enter(self, operation: object) -> bool:
        """True if the thread was idle and is now busy with `operation`. Then the caller must `leave`."""
        if self.busy_with is not None:
            return False
        self.busy_with = operation
        return True

    def leave(self) -> None:
        """The callbacks have returned: run what they set off, and what that sets off, one after the other."""
        self.busy_with = None
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._actions:
                self._actions.popleft()()
        finally:
            self._is_draining = False


ACTIONS = ActionQueue()
