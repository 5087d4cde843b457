"""An operation that waits for something to become true, or for its time to run out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, SupportsIndex

from dwell.errors import InvalidArgument, log_error, report
from dwell.purgatory.action_queue import ACTIONS
from dwell.purgatory.statistics import Outcome
from dwell.purgatory.watch_map import Watch, WatchMap
from dwell.timer import TimerTask

if TYPE_CHECKING:
    from dwell.purgatory.purgatory import Purgatory


class Lock(Protocol):
    """What an operation needs of a lock; `threading.RLock()` has it. It must be re-entrant if callbacks take it too."""

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
    under the operation's lock, so never while a thread is in `try_complete`. Pass `lock` to share one with the state
    that the condition reads. An exception of a callback goes to the purgatory's `on_error`.
    """

    __slots__ = (
        "_completed",
        "_lock",
        "_observer",
        "_outcome",
        "_purgatory",
        "_started_ms",
        "_state",
        "_taken_out",
        "_watch",
    )

    def __init__(self, delay_ms: SupportsIndex, lock: Lock | None = None) -> None:
        super().__init__(delay_ms)
        if type(self).try_complete is DelayedOperation.try_complete:
            raise InvalidArgument(f"{type(self).__name__} must override try_complete()")
        # Held over try_complete and on_complete.
        self._lock: Lock = threading.RLock() if lock is None else lock
        # Guards the fields below. Held for a few assignments, never over code of a user.
        self._state = threading.Lock()
        self._completed = False
        # Whether it was cancelled since a purgatory last let it in.
        self._taken_out = False
        # What the lists of its keys hold in its stead; None while it is on none.
        self._watch: Watch | None = None
        # Known once the callbacks have returned. Then the observer is told.
        self._outcome: Outcome | None = None
        self._observer: Callable[[Outcome], None] | None = None
        # The purgatory that let it in, and when; None after the callbacks have returned.
        self._purgatory: Purgatory | None = None
        self._started_ms: int | None = None

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

    @property
    def is_cancelled(self) -> bool:
        """Whether the operation was cancelled, by itself or by one of its keys, since it last began to wait."""
        return self._taken_out

    def force_complete(self) -> bool:
        """Complete the operation. True for the one caller that did it; False if it was completed before.

        Inside a callback of another operation it is completed at once, and its `on_complete` runs when that callback
        has returned.
        """
        return self._complete(expired=False)

    def safe_try_complete(self) -> bool:
        """`try_complete` under the lock; False if completed before. Waits for the lock, so that no chance is lost."""
        return self._try_or_watch(None)

    def cancel(self) -> bool:
        """Take the operation out without completing it: its clock stops and no key completes it. True if it waited."""
        if not self._unwatch():
            # It may wait in a timer alone.
            return super().cancel()
        self._count_cancelled()
        return True

    def run(self) -> None:
        """The timer's call: time is up."""
        self._complete(expired=True)

    # For the purgatory

    def _try_or_watch(self, watch: Callable[[], None] | None) -> bool:
        """Try; if that fails, `watch` and try again while the lock is still held: see `try_complete_else_watch`."""
        outermost = ACTIONS.enter(self)
        try:
            with self._lock:
                if self._completed:
                    return False
                if self._try():
                    return True
                # A try that returns False may have completed it, and so may another thread while it is being watched.
                if watch is None or self._completed:
                    return False
                watch()
                return not self._completed and self._try()
        finally:
            if outermost:
                ACTIONS.leave()

    def _let_in(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._taken_out = False

    def _watch_on(self, keys: Iterable[Hashable], watches: WatchMap) -> None:
        """Put the operation on the list of each key, unless it is completed meanwhile."""
        watch = self._watch
        if watch is None:
            watch = self._watch = Watch(self)
        for key in keys:
            if self._completed:
                break
            watches.add(key, watch)
        if self._completed:
            # By a thread that may have seen no watch to empty.
            self._unwatch()

    def _stop_clock(self) -> None:
        super().cancel()

    def _count_cancelled(self) -> None:
        """Stop the clock, count the operation as cancelled unless it was before, and tell the observer."""
        self._stop_clock()
        with self._state:
            is_first = not self._taken_out
            self._taken_out = True
        if is_first and self._purgatory is not None:
            self._purgatory._counts.count_cancelled()
        self._tell_observer("cancelled")

    def _unwatch(self) -> bool:
        """Let go of the operation from the lists of all its keys; False if it was on none."""
        with self._state:
            watch, self._watch = self._watch, None
            if watch is not None:
                watch.operation = None
            return watch is not None

    def _observe(self, observer: Callable[[Outcome], None]) -> Outcome | None:
        """Let `observer` be told the outcome; if there is one already, return it and tell nobody."""
        with self._state:
            if self._observer is not None:
                raise InvalidArgument(f"somebody waits already for {self!r}")
            if self._outcome is None:
                self._observer = observer
            return self._outcome

    def _stop_observing(self) -> None:
        self._observer = None

    # Completing

    def _complete(self, *, expired: bool) -> bool:
        if self._completed:
            return False
        if ACTIONS.busy_with is self:
            # Inside its own try_complete, with the lock held.
            if not self._claim(expired):
                return False
            self._call_back(expired, nullcontext())
        elif ACTIONS.enter(self):
            try:
                # The lock comes first: no thread may be in try_complete when the operation becomes completed.
                with self._lock:
                    if not self._claim(expired):
                        return False
                self._call_back(expired, self._lock)
            finally:
                ACTIONS.leave()
        else:
            # Inside a callback of another operation, whose lock is held: waiting for this one's could be a deadlock.
            if not self._claim(expired):
                return False
            ACTIONS.put(lambda: self._finish(expired))
        return True

    def _finish(self, expired: bool) -> None:
        """Run the callbacks of an operation that was claimed before."""
        ACTIONS.enter(self)
        try:
            self._call_back(expired, self._lock)
        finally:
            ACTIONS.leave()

    def _claim(self, expired: bool) -> bool:
        """Make a waiting operation a completed one. True for one thread only: that one calls back."""
        with self._state:
            if self._completed:
                return False
            self._completed = True
        self._stop_clock()
        self._unwatch()
        if self._purgatory is not None:
            self._purgatory._count_settled(self, expired)
        return True

    def _call_back(self, expired: bool, lock: Lock | nullcontext[None]) -> None:
        """Run the callbacks. The outcome is known when they have returned, and also if Ctrl-C interrupted them."""
        try:
            with lock:
                self._guard(self.on_complete)
            if expired:
                self._guard(self.on_expiration)
        finally:
            with self._state:
                self._outcome = "expired" if expired else "completed"
            self._tell_observer(self._outcome)
            self._purgatory = None

    def _tell_observer(self, outcome: Outcome) -> None:
        with self._state:
            observer, self._observer = self._observer, None
        try:
            if observer is not None:
                observer(outcome)
        except RuntimeError as error:  # its event loop was closed
            self._report(error)

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
        report(log_error if self._purgatory is None else self._purgatory._on_error, error, self)

    def __repr__(self) -> str:
        state = "completed" if self._completed else "waiting" if self._watch is not None else "idle"
        return f"<{type(self).__name__} delay_ms={self.delay_ms} {state}>"
