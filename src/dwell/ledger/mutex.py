"""The lock of a ledger; `mutex.pyx` is its compiled twin."""

from __future__ import annotations

import threading


class Mutex:
    """One thread at a time. A thread that holds it and asks again (a finaliser, run while the ledger works) gets an
    error, not a deadlock.
    """

    __slots__ = ("_lock", "release")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.release = self._lock.release

    def acquire(self) -> None:
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise RuntimeError("the ledger was called from within itself")
        try:
            self._lock.acquire()
        except BaseException:
            # Ctrl-C, just before the lock was taken or just after.
            if self._lock._is_owned():  # type: ignore[attr-defined]
                self._lock.release()
            raise
