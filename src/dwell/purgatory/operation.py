"""An operation that waits for something to become true, or for its time to run out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, SupportsIndex

from dwell.errors import InvalidArgument, log_error
from dwell.purgatory.action_queue import ACTIONS
from dwell.purgatory.statistic import Outcome
from dwell.purgatory.watcher_list import Watch
from dwell.timer.task import TimerTask

if TYPE_CHECKING:
    from dwell.purgatory.core import PurgatoryCore

# Makes "completed" and "watched" flip once, also where the operation's own lock is not held. Held for that flip only.
_CLAIM = threading.Lock()


class Lock(Protocol):
    """What an operation needs of a lock; `threading.RLock()` has it. It must be re-entrant."""

    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


class DelayedOperation(TimerTask):
    """Subclass it: `try_complete` checks the condition and calls `force_complete`; `on_complete` gives the answer.

    Whatever completes it, an event or the end of its time, and from whichever thread: `on_complete` runs exactly once,
    under the operation's lock, so never while a thread is in `try_complete`. Give `lock` to share one with the state
    that the condition reads. An exception of a callback goes to the purgatory's `on_error`.
    """

    __slots__ = (
        "_cancel_counted",
        "_completed",
        "_lock",
        "_observer",
        "_outcome",
        "_purgatory",
        "_started_ms",
        "_watch",
    )

    def __init__(self, delay_ms: SupportsIndex, lock: Lock | None = None) -> None:
        super().__init__(delay_ms)
        if type(self).try_complete is DelayedOperation.try_complete:
            raise InvalidArgument(f"{type(self).__name__} must override try_complete()")
        self._lock: Lock = threading.RLock() if lock is None else lock
        self._completed = False
        # Whether the purgatory has counted it as cancelled since it was last let in.
        self._cancel_counted = False
        # Known once its callbacks have returned; then the observer, if there is one, is told.
        self._outcome: Outcome | None = None
        self._observer: Callable[[Outcome], None] | None = None
        self._purgatory: PurgatoryCore | None = None
        self._started_ms: int | None = None
        self._watch: Watch | None = None

    # For the subclass

    def try_complete(self) -> bool:
        """If the condition holds, `return self.force_complete()`; otherwise False. Called under the lock."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Called once, when the operation is completed by whatever means, before `on_expiration`."""

    def on_expiration(self) -> None:
        """Called after `on_complete`, without the lock, if it was the end of its time that completed the operation."""

    # For everyone

    @property
    def is_completed(self) -> bool:
        """Whether the operation is completed, or just about to run `on_complete`."""
        return self._completed

    def force_complete(self) -> bool:
        """Complete the operation, unless it is. True to the one caller that did it.

        From inside a callback of another operation it is completed at once, and its `on_complete` runs when that
        callback has returned.
        """
        return self._complete(expired=False)

    def safe_try_complete(self) -> bool:
        """`try_complete` under the lock, unless completed: then False. Waits for the lock: no chance is lost."""
        outermost = ACTIONS.enter(self)
        try:
            with self._lock:
                return not self._completed and self._try()
        finally:
            if outermost:
                ACTIONS.leave()

    def run(self) -> None:
        """The timer's call: time is up."""
        self._complete(expired=True)

    # For the purgatory

    def _safe_try_complete_or_else(self, action: Callable[[], None]) -> bool:
        """Try; if that fails, act and try again, in one hold of the lock: what came true in between is not missed."""
        outermost = ACTIONS.enter(self)
        try:
            with self._lock:
                if self._completed:
                    return False
                if self._try():
                    return True
                # A try that returns False may have completed it, and so may anyone while it is being watched.
                if not self._completed:
                    action()
                return not self._completed and self._try()
        finally:
            if outermost:
                ACTIONS.leave()

    def _complete(self, *, expired: bool) -> bool:
        if self._completed:
            return False
        if ACTIONS.busy_with is self:
            # Inside its own try_complete, with the lock held.
            if not self._claim(expired):
                return False
            try:
                self._guard(self.on_complete)
                self._expire(expired)
            finally:
                self._settle(expired)
        elif ACTIONS.enter(self):
            claimed = False
            try:
                with self._lock:
                    claimed = self._claim(expired)
                    if not claimed:
                        return False
                    self._guard(self.on_complete)
                self._expire(expired)
            finally:
                if claimed:
                    self._settle(expired)
                ACTIONS.leave()
        else:
            # Inside a callback of another operation, whose lock is held: waiting for this one's could be a deadlock.
            if not self._claim(expired):
                return False
            ACTIONS.put(lambda: self._finish(expired))
        return True

    def _finish(self, expired: bool) -> None:
        """The callbacks of an operation that was claimed before."""
        ACTIONS.enter(self)
        try:
            with self._lock:
                self._guard(self.on_complete)
            self._expire(expired)
        finally:
            self._settle(expired)
            ACTIONS.leave()

    def _claim(self, expired: bool) -> bool:
        with _CLAIM:
            if self._completed:
                return False
            self._completed = True
        self.cancel()
        self._unwatch()
        if self._purgatory is not None:
            self._purgatory._count_settled(self, expired)
        return True

    def _expire(self, expired: bool) -> None:
        if expired:
            self._guard(self.on_expiration)

    def _settle(self, expired: bool) -> None:
        """The callbacks have returned, or were interrupted: there is an outcome, and nobody waits for it longer."""
        self._outcome = "expired" if expired else "completed"
        self._tell_observer(self._outcome)
        self._purgatory = None

    def _tell_observer(self, outcome: Outcome) -> None:
        observer, self._observer = self._observer, None
        try:
            if observer is not None:
                observer(outcome)
        except RuntimeError as error:  # its event loop was closed
            self._report(error)

    def _unwatch(self) -> bool:
        """Let go of the operation from the lists of all its keys; False if it was on none."""
        with _CLAIM:
            watch, self._watch = self._watch, None
        if watch is None:
            return False
        watch.operation = None
        return True

    def _try(self) -> bool:
        try:
            return bool(self.try_complete())
        except Exception as error:
            self._report(error)
            return False

    def _guard(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        (log_error if self._purgatory is None else self._purgatory._report)(error, self)

    def __repr__(self) -> str:
        state = "completed" if self._completed else "waiting" if self._watch is not None else "idle"
        return f"<{type(self).__name__} delay_ms={self.delay_ms} {state}>"
