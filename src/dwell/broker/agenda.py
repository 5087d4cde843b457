"""What the host still has to do: one queue of calls, worked off outside everybody's stack.

A handler that appends a batch does not complete other requests itself: it puts the check on the agenda and returns. So
a produce is answered before the five hundred fetches it wakes, no completion runs inside another one's callback, and
"the agenda is empty" is the exact meaning of "the cluster has nothing left to do at this moment".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from dwell.errors import ErrorHandler, log_error

# How long one drain may hold the event loop: sockets are looked at in between.
SLICE_S = 0.005
# The clock is read once in so many calls.
CHUNK = 32


class Agenda:
    """Calls in the order they were put. `wake` is called when the agenda stops being empty: it arranges a `drain`."""

    __slots__ = ("_calls", "_last", "_on_error", "_wake", "_woken")

    def __init__(self, wake: Callable[[], object] | None = None, on_error: ErrorHandler = log_error) -> None:
        self._calls: deque[Callable[[], object]] = deque()
        self._wake = wake
        self._on_error = on_error
        # Calls to make when a drain pauses or ends: answers to one client are then sent together.
        self._last: list[Callable[[], object]] = []
        # A drain is arranged or running.
        self._woken = False

    def put(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        if not self._woken and self._wake is not None:
            self._woken = True
            self._wake()

    def put_last(self, call: Callable[[], object]) -> None:
        """Make `call` after the calls that wait now. Somebody must be draining, or drain soon."""
        self._last.append(call)
        if not self._woken and self._wake is not None:
            self._woken = True
            self._wake()

    def drain(self) -> None:
        """Make calls until none is left, including those that the calls put."""
        self._woken = True
        calls = self._calls
        while calls or self._last:
            while calls:
                self._call(calls.popleft())
            self._finish()
        self._woken = False

    def drain_slice(self) -> bool:
        """Like `drain`, but stop after `SLICE_S`. False if calls are left and `wake` was called again."""
        self._woken = True
        calls = self._calls
        end = monotonic() + SLICE_S
        while calls or self._last:
            for _ in range(min(CHUNK, len(calls))):
                self._call(calls.popleft())
            if self._last:
                self._finish()
            if calls and monotonic() >= end:
                assert self._wake is not None
                self._wake()
                return False
        self._woken = False
        return True

    def __len__(self) -> int:
        return len(self._calls)

    def _finish(self) -> None:
        last, self._last = self._last, []
        for call in last:
            self._call(call)

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            self._on_error(error, call)
