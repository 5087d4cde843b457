# Types for the compiled build of engine.py.
cimport cython

from dwell.ledger.check cimport content, fault
from dwell.ledger cimport item as rows
from dwell.ledger.operation cimport Heap, Key, Operation, is_awaited, make_key, make_operation, place_of


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
    cdef public Heap deadlines
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
    cdef object _past_ms

    cpdef at(self, long long now_ms)
    @cython.locals(key=Key)
    cdef _forget_keys(self)
    cdef _forget_operations(self)
    cdef _forget_later(self, row)
    cdef bint _is_stale(self, Key key)
    @cython.locals(op=Operation)
    cpdef Operation open(self, row)
    @cython.locals(op=Operation)
    cdef Operation _admit(self, row)
    @cython.locals(op=Operation, known=Operation)
    cdef Operation _refuse(self, row, reason)
    @cython.locals(key=Key)
    cdef _start(self, Operation op)
    @cython.locals(key=Key)
    cdef Key _key(self, str name)
    cpdef cancel(self, Operation op)
    @cython.locals(key=Key)
    cpdef record(self, str name, level)
    @cython.locals(first=Operation, op=Operation, others=list)
    cdef _signal(self, Key key)
    @cython.locals(op=Operation, levels=Heap)
    cdef _rise(self, Key key, level)
    @cython.locals(now=cython.longlong)
    cdef _meet(self, Operation op, Key key)
    cdef _ripen(self, Operation op)
    @cython.locals(key=Key, keys=list, thresholds=list, levels=list, i=cython.Py_ssize_t)
    cdef _watch_volume(self, Operation op)
    @cython.locals(op=Operation, ripe=list)
    cpdef settle(self)
    @cython.locals(op=Operation, deadlines=Heap)
    cpdef expire(self, long long last_ms)
    @cython.locals(ranks=list)
    cpdef bint has_due(self, long long last_ms) except -1
    @cython.locals(op=Operation)
    cpdef list waiting(self)
    @cython.locals(op=Operation)
    cpdef suspend(self)
    cdef _leave_open(self, Operation op)
    cdef _finish(self, Operation op, str outcome, long long finished_at_ms)
    @cython.locals(key=Key, last_ms=cython.longlong)
    cdef str _last_to_rise(self, Operation op)
    @cython.locals(key=Key, places=list, i=cython.Py_ssize_t)
    cdef _leave(self, Operation op)
    cdef _drop_if_unknown(self, Key key)
