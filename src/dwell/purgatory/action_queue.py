"""What a thread's callbacks set off, kept until they have returned.

A callback of an operation runs with that operation's lock held. Were the completions it sets off to run inside it, a
chain of operations that each complete the next would grow the stack without bound, and two threads whose chains meet
could wait for each other's locks. So a thread is *busy* with one operation at a time: what its callbacks set off waits
here, and runs in order when the operation's callbacks have returned and its lock is released.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import final


@final
class ActionQueue(threading.local):
    """One a thread: the operation whose callbacks run, and what they have set off."""

    def __init__(self) -> None:
        self.busy_with: object = None
        self._actions: deque[Callable[[], object]] = deque()
        self._draining = False

    def put(self, action: Callable[[], object]) -> None:
        self._actions.append(action)

    def enter(self, operation: object) -> bool:
        """True if the thread was idle and now is busy with `operation`: then the caller has to `leave`."""
        if self.busy_with is not None:
            return False
        self.busy_with = operation
        return True

    def leave(self) -> None:
        """The callbacks have returned: run what they set off, and what that sets off, one after the other."""
        self.busy_with = None
        if self._draining:
            return
        self._draining = True
        try:
            while self._actions:
                self._actions.popleft()()
        finally:
            self._draining = False


ACTIONS = ActionQueue()
