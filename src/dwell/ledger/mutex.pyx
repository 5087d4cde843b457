# cython: language_level=3
"""The compiled twin of `mutex.py`."""

cimport cython

from dwell._c.lock cimport acquire, release


@cython.final
@cython.no_gc
cdef class Mutex:
    cdef int acquire(self) except -1:
        acquire(&self.lock)
        if self.lock.depth > 1:
            release(&self.lock)
            raise RuntimeError("the ledger was called from within itself")
        return 0

    cdef void release(self) noexcept:
        release(&self.lock)
