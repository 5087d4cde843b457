"""The reaper loop: one thread that makes time pass for a timer, a purgatory or a ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

from dwell.errors import ErrorHandler, report

# How long one turn waits for something to be due before it looks around; Kafka's figure.
POLL_MS = 200

# A turn that did nothing is followed by a pause of a millisecond: a timer that was closed returns from every turn at
# once, and must not keep a processor busy. Turns that fail one after the other are followed by ever longer pauses.
SHORTEST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.2


@final
class Reaper:
    """Calls `turn()` on a daemon thread of its own until closed. An exception of a turn is reported, not the end.

    `turn` waits by itself, `POLL_MS` at most, and returns whether it did anything. `wake` ends that wait, from another
    thread; without it, `close` waits for the turn to end. Any thread may call any method; `start` and `close` may be
    called twice.
    """

    def __init__(
        self, name: str, turn: Callable[[], bool], on_error: ErrorHandler, wake: Callable[[], object] | None = None
    ) -> None:
        self._turn = turn
        self._on_error = on_error
        self._wake = wake
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._start = threading.Lock()

    def start(self) -> None:
        """Start the thread, unless it was started or the reaper is closed."""
        with self._start:
            if self._thread.ident is None and not self._closed.is_set():
                self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the reaper's thread."""
        return self._thread is threading.current_thread()

    def close(self, timeout_s: float | None = None) -> None:
        """End the thread and wait for that, `timeout_s` at most. From the thread itself: it ends after this turn."""
        with self._start:
            self._closed.set()
        if self._thread.ident is None or self.is_current:
            return
        if self._wake is not None:
            self._wake()
        self._thread.join(timeout_s)

    def pause(self, seconds: float) -> None:
        """For a turn that has nothing to do: wait so long, or until closed."""
        self._closed.wait(seconds)

    def _loop(self) -> None:
        pause_s = SHORTEST_PAUSE_S
        while not self._closed.is_set():
            try:
                if not self._turn():
                    self._closed.wait(SHORTEST_PAUSE_S)
                pause_s = SHORTEST_PAUSE_S
            except BaseException as error:  # also SystemExit: nobody else makes time pass
                report(self._on_error, error, self)
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def __repr__(self) -> str:
        return f"<Reaper {self._thread.name!r}>"
