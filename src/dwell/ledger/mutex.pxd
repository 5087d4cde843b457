# Types for both builds' compiled side: the lock is inside its owner, taken and given back without a call.
cimport cython

from dwell.purgatory._lock cimport Lock


@cython.final
cdef class Mutex:
    cdef Lock lock

    cdef int acquire(self) except -1
    cdef void release(self) noexcept
