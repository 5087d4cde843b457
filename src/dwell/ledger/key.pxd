# Types for the compiled build of key.py.
cimport cython

from dwell.ledger.heap cimport Heap
from dwell.ledger.operation cimport Operation

cdef long long BEFORE_ALL
cdef Py_ssize_t TOLERATED


@cython.final
cdef class Key:
    cdef public object name
    cdef public long long level
    cdef public long long rose_at
    cdef public long long seen_at
    cdef public Heap levels
    cdef public Operation signal
    cdef public list signals
    cdef public int dead
    cdef public bint has_level

    cdef watch_signal(self, Operation op)
    cdef watch_level(self, long long level, Operation op)
    @cython.locals(op=Operation, living=list)
    cdef bury_signal(self)
    cdef bury_level(self)
    cpdef bint is_idle(self) except -1
    cpdef Py_ssize_t count_signals(self) except -1


@cython.locals(key=Key)
cpdef Key make_key(name)
