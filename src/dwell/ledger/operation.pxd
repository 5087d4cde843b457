# Types for the compiled build of operation.py.
cimport cython

from dwell.ledger cimport item as rows


@cython.final
cdef class Operation:
    cdef public object row
    cdef public object op_id
    cdef public object needs
    cdef public long long submitted_at_ms
    cdef public long long number
    cdef public long long deadline_ms
    cdef public int missing
    cdef public int unmet
    cdef public list met
    cdef public long long met_at
    cdef public str met_by
    cdef public list thresholds
    cdef public bint queued
    cdef public bint ripe
    cdef public object outcome
    cdef public object waiters


@cython.locals(op=Operation)
cpdef Operation make_operation(row, op_id, needs, long long submitted_at_ms, long long number)


@cython.locals(place=cython.Py_ssize_t)
cpdef Py_ssize_t place_of(Operation op, str name) except -1
cpdef bint is_awaited(Operation op, str name, level) except -1


@cython.final
cdef class Heap:
    cdef public list ranks
    cdef public list operations
    cdef public Py_ssize_t dead

    @cython.locals(
        ranks=list, operations=list, place=cython.Py_ssize_t, parent=cython.Py_ssize_t, above=Operation
    )
    cdef push(self, rank, Operation op)
    @cython.locals(
        ranks=list, operations=list, place=cython.Py_ssize_t, child=cython.Py_ssize_t, count=cython.Py_ssize_t,
        op=Operation, first=Operation, below=Operation, right=Operation,
    )
    cdef Operation pop(self)
    @cython.locals(ranks=list, operations=list, i=cython.Py_ssize_t, op=Operation)
    cdef bury(self, str name)


cdef bint _precedes(rank, Operation op, other_rank, Operation other) except -1


@cython.final
cdef class Key:
    cdef public str name
    cdef public object level
    cdef public long long rose_at
    cdef public long long seen_at
    cdef public Heap levels
    cdef public Operation signal
    cdef public list signals
    cdef public Py_ssize_t dead
    cdef watch(self, level, Operation op)
    @cython.locals(op=Operation, living=list)
    cdef bury(self, bint is_signal)
    cpdef bint is_idle(self)
    cpdef Py_ssize_t count_signals(self)


@cython.locals(key=Key)
cpdef Key make_key(str name)
