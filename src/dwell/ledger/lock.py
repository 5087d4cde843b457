"""The lock of a ledger."""

from __future__ import annotations

import threading


class Lock:
    """One thread at a time. A thread that holds it and asks again gets an error, not a deadlock: a finaliser or a
    signal handler may run while the ledger works, and call the ledger.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise RuntimeError("the ledger was called from within itself")
        try:
            self._lock.acquire()
        except BaseException:
            # Ctrl-C, just before the lock was taken or just after.
            if self._lock._is_owned():  # type: ignore[attr-defined]
                self._lock.release()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()
