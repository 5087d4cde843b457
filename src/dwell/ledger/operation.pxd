# Types for the compiled build of operation.py.

cdef class Key:
    cdef public str name
    cdef public object level
    cdef public long long rose_at
    cdef public long long seen_at
    cdef public list levels
    cdef public list signals
    cdef public Py_ssize_t dead
    cpdef bint is_idle(self)


cdef class Bucket:
    cdef public long long deadline_ms
    cdef public Operation head


cdef class Operation:
    cdef public object row
    cdef public object op_id
    cdef public object needs
    cdef public long long submitted_at_ms
    cdef public object volume
    cdef public long long number
    cdef public long long deadline_ms
    cdef public list keys
    cdef public Py_ssize_t missing
    cdef public Py_ssize_t unmet
    cdef public dict met
    cdef public long long met_at
    cdef public str met_by
    cdef public list thresholds
    cdef public bint ripe
    cdef public Bucket bucket
    cdef public Operation prev
    cdef public Operation next
    cdef public object outcome
    cdef public list waiters
