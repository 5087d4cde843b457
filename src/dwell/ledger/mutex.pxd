# The lock is inside its owner: taken and given back in a few instructions.
cimport cython

from dwell._c.lock cimport Lock


@cython.final
cdef class Mutex:
    cdef Lock lock

    cdef int acquire(self) except -1
    cdef void release(self) noexcept
