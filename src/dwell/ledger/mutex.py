"""The lock of a ledger; `mutex.pyx` is its compiled twin."""

from __future__ import annotations

import threading


class Mutex:
    """One thread at a time. A thread that holds it and asks again (a finaliser, run while the ledger works) gets an
    error, not a deadlock.
    """

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0

    def acquire(self) -> None:
        me = threading.get_ident()
        if self._owner == me:
            raise RuntimeError("the ledger was called from within itself")
        self._lock.acquire()
        self._owner = me

    def release(self) -> None:
        self._owner = 0
        self._lock.release()
