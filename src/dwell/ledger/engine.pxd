# Types for the compiled build of engine.py.
cimport cython

from dwell.ledger.check cimport content, fault
from dwell.ledger.operation cimport Bucket, Key, Operation


cdef class Engine:
    cdef public long long now_ms
    cdef public list settled
    cdef public long long opened
    cdef public long long completed
    cdef public long long expired
    cdef public long long rejected
    cdef public long long cancelled
    cdef public long long pending
    cdef public long long repeated
    cdef public long long recorded
    cdef public long long set_aside
    cdef public dict keys
    cdef public dict buckets
    cdef public list deadlines
    cdef public dict operations
    cdef dict _refused
    cdef list _ripe
    cdef dict _young
    cdef bint _forgets_keys
    cdef long long _key_retention_ms
    cdef object _levelled
    cdef bint _forgets_operations
    cdef long long _op_retention_ms
    cdef object _past

    cpdef at(self, long long now_ms)
    @cython.locals(key=Key)
    cdef _forget_keys(self)
    cdef _forget_operations(self)
    cdef bint _is_stale(self, Key key)
    @cython.locals(op=Operation)
    cpdef Operation open(self, row)
    @cython.locals(op=Operation)
    cdef Operation _admit(self, row)
    @cython.locals(op=Operation, known=Operation)
    cdef Operation _refuse(self, row, reason)
    @cython.locals(key=Key, keys=list)
    cdef _start(self, Operation op)
    @cython.locals(key=Key)
    cdef Key _key(self, str name)
    cpdef cancel(self, Operation op)
    @cython.locals(key=Key, op=Operation, signals=list)
    cpdef record(self, str name, level)
    @cython.locals(op=Operation, levels=list)
    cdef _rise(self, Key key, level)
    @cython.locals(now=cython.longlong)
    cdef _meet(self, Operation op, Key key)
    cdef _ripen(self, Operation op)
    @cython.locals(key=Key, keys=list, thresholds=list, levels=list, i=cython.Py_ssize_t)
    cdef _watch_volume(self, Operation op)
    @cython.locals(op=Operation, ripe=list)
    cpdef settle(self)
    @cython.locals(bucket=Bucket, deadline_ms=cython.longlong)
    cpdef expire(self, long long last_ms)
    cdef _leave_open(self, Operation op)
    cdef _finish(self, Operation op, str outcome, long long finished_at_ms)
    @cython.locals(key=Key, last_ms=cython.longlong)
    cdef str _last_to_rise(self, Operation op)
    @cython.locals(key=Key, i=cython.Py_ssize_t)
    cdef _leave(self, Operation op)
    @cython.locals(bucket=Bucket)
    cdef _enqueue(self, Operation op)
    cdef _dequeue(self, Operation op, Bucket bucket)
    cdef _drop_if_unknown(self, Key key)
    @cython.locals(op=Operation)
    cdef _bury(self, Key key)


@cython.locals(op=Operation)
cdef bint _is_awaited(tuple entry, Key key)
cdef bint _is_threshold(Operation op, Key key, threshold)
cdef Py_ssize_t _place(Operation op, Key key) except -1
