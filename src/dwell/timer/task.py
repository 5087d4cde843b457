"""What a timer runs when time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

from dwell.errors import InvalidArgument
from dwell.number import at_least, later, whole_number
from dwell.timer.bucket import LOCK, TimerTaskEntry


class TimerTask:
    """Runs once, `delay_ms` after it is added to a timer. Give a callback, or subclass and override `run()`.

    A negative delay is due at once. A task that has run, or was cancelled, may be added again; adding a task that
    already waits moves it. Any thread may call any method.
    """

    __slots__ = ("_callback", "_cancelled", "_delay_ms", "_entry")

    def __init__(self, delay_ms: SupportsIndex, callback: Callable[[], object] | None = None) -> None:
        self._delay_ms = whole_number("delay_ms", delay_ms)
        if callback is None and type(self).run in (TimerTask.run, RecurringTask.run):
            raise InvalidArgument("a TimerTask needs a callback or a subclass that overrides run()")
        self._callback = callback
        self._cancelled = False
        # Where it waits; None if it does not.
        self._entry: TimerTaskEntry | None = None

    def run(self) -> None:
        """Called once when the delay is over, never under a lock of the timer."""
        self._callback()  # type: ignore[misc]

    def cancel(self) -> bool:
        """Take the task out of its timer in O(1). True if it was waiting; a run already handed over is not stopped."""
        with LOCK:
            self._cancelled = True
            if self._entry is None or self._entry.wheels is None:
                return False
            self._entry.wheels._cancel(self._entry)
            return True

    @property
    def delay_ms(self) -> int:
        """How long the task waits from the moment it is added; `timer.reschedule` changes it."""
        return self._delay_ms

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel()` was called since the task was last added."""
        return self._cancelled

    @property
    def is_pending(self) -> bool:
        """Whether the task waits in a timer now."""
        return self._entry is not None

    @property
    def deadline_ms(self) -> int | None:
        """The moment a waiting task is due, on its timer's clock; None when it does not wait."""
        entry = self._entry
        return None if entry is None else entry.deadline_ms

    def __repr__(self) -> str:
        state = "pending" if self.is_pending else "cancelled" if self._cancelled else "idle"
        return f"<{type(self).__name__} delay_ms={self.delay_ms} {state}>"


class RecurringTask(TimerTask):
    """Runs every `period_ms`, first after `delay_ms` (default: one period), until cancelled.

    The n-th run is due at first deadline + n periods however late the runs are, so there is no drift. It is due again
    from the moment it starts to run; periods that passed meanwhile are skipped, not made up for.
    """

    __slots__ = ("_due_ms", "_period_ms")

    def __init__(
        self,
        period_ms: SupportsIndex,
        callback: Callable[[], object] | None = None,
        *,
        delay_ms: SupportsIndex | None = None,
    ) -> None:
        self._period_ms = at_least("period_ms", period_ms, 1)
        super().__init__(self._period_ms if delay_ms is None else delay_ms, callback)
        self._due_ms = 0

    @property
    def period_ms(self) -> int:
        """The time from one run to the next."""
        return self._period_ms

    def _next_deadline_ms(self, now_ms: int) -> int:
        behind_ms = max(0, now_ms - self._due_ms)
        return later(self._due_ms, (behind_ms // self._period_ms + 1) * self._period_ms)
