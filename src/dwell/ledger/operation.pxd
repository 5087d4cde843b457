# Types for the compiled build of operation.py.
cimport cython

from dwell.ledger cimport item as rows

cdef long long BEFORE_ALL


@cython.final
cdef class Operation:
    cdef public object op_id
    cdef public tuple needs
    cdef public object quorum
    cdef public object volume
    cdef public long long submitted_at_ms
    cdef public long long deadline_ms
    cdef public long long number
    cdef public long long met_at
    cdef public long long finished_at_ms
    cdef public object met_by
    cdef public list met
    cdef public list thresholds
    cdef public str outcome
    cdef public str reason
    cdef public object waiters
    cdef public int missing
    cdef public int unmet
    cdef public bint queued
    cdef public bint ripe

    cpdef bint awaits(self, key, long long rank) except -1
    @cython.locals(place=cython.Py_ssize_t)
    cpdef Py_ssize_t place_of(self, key) except -1
    cpdef met_since(self, Py_ssize_t place)
    cpdef row(self)


@cython.locals(op=Operation)
cpdef Operation make_operation(op_id, long long number)
