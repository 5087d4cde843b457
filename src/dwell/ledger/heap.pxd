# The layout of the compiled heap: one array, no object for an entry or a rank.
cimport cython

from dwell.ledger.operation cimport Operation


cdef struct Entry:
    long long rank
    long long number
    # Owned.
    void *operation


@cython.final
cdef class Heap:
    cdef Entry *_entries
    cdef Py_ssize_t _count
    cdef Py_ssize_t _capacity
    cdef readonly Py_ssize_t dead

    cdef bint has_up_to(self, long long rank) noexcept
    cdef long long first_rank(self) noexcept
    cdef int push(self, long long rank, Operation op) except -1
    cdef Operation pop(self)
    cdef int bury(self, key) except -1
    cdef void unbury(self) noexcept
    cdef int _clean(self, key) except -1
