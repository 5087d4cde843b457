# Types for the compiled build of engine.py.
cimport cython

from dwell.ledger cimport item as rows
from dwell.ledger.check cimport content, fault, plain, plain_needs
from dwell.ledger.heap cimport Heap
from dwell.ledger.key cimport Key, make_key
from dwell.ledger.operation cimport Operation, make_operation
from dwell.ledger.register cimport Register

cdef long long BEFORE_ALL


@cython.final
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
    cdef public Register register
    cdef list _ripe
    cdef bint _forgets_keys
    cdef long long _key_retention_ms
    cdef object _levelled

    cpdef at(self, long long now_ms)
    @cython.locals(key=Key)
    cdef _forget_keys(self)
    cdef bint _is_stale(self, Key key) except -1
    @cython.locals(op=Operation, before=cython.longlong)
    cpdef Operation open(self, row)
    @cython.locals(op=Operation, before=cython.longlong)
    cpdef open_later(self, row)
    @cython.locals(op=Operation, first=Operation)
    cdef Operation _admit(self, row)
    @cython.locals(op=Operation, known=Operation)
    cdef Operation _refuse(self, row, str reason)
    @cython.locals(key=Key, level=cython.longlong)
    cdef _start(self, Operation op)
    @cython.locals(key=Key)
    cdef Key _key(self, name)
    cpdef cancel(self, Operation op)
    @cython.locals(key=Key)
    cpdef record(self, name, level)
    @cython.locals(first=Operation, op=Operation, others=list)
    cdef _signal(self, Key key)
    @cython.locals(op=Operation, levels=Heap, threshold=cython.longlong)
    cdef _rise(self, Key key, long long level)
    @cython.locals(now=cython.longlong)
    cdef _meet(self, Operation op, Key key)
    @cython.locals(met=list)
    cdef _note_met(self, Operation op, name)
    cdef _ripen(self, Operation op)
    cdef _unwatch(self, Key key, threshold)
    @cython.locals(key=Key, keys=list, thresholds=list, levels=list, i=cython.Py_ssize_t)
    cdef _watch_volume(self, Operation op)
    @cython.locals(op=Operation, ripe=list)
    cpdef settle(self)
    @cython.locals(op=Operation, deadlines=Heap)
    cpdef expire(self, long long last_ms)
    @cython.locals(op=Operation)
    cpdef list waiting(self)
    @cython.locals(op=Operation)
    cpdef suspend(self)
    cdef _leave_open(self, Operation op)
    cdef _finish(self, Operation op, str outcome, long long finished_at_ms)
    @cython.locals(key=Key, last_ms=cython.longlong)
    cdef _last_to_rise(self, Operation op)
    @cython.locals(key=Key, i=cython.Py_ssize_t)
    cdef _leave_keys(self, Operation op)
    cdef _drop_if_unknown(self, Key key)
