# Types for the compiled build of replay.py.
cimport cython

from dwell.ledger cimport item as rows
from dwell.ledger.check cimport is_usable_event, is_usable_time
from dwell.ledger.engine cimport Engine
from dwell.ledger.operation cimport Operation

cdef Py_ssize_t SUBMITTED_AT
cdef Py_ssize_t AT
cdef Py_ssize_t KEY
cdef Py_ssize_t LEVEL
cdef long long NEVER


cdef class Replay:
    cdef Engine _engine
    cdef long long _end_ms
    cdef bint _in_order
    cdef object _waits
    cdef object _events
    cdef bint _is_started
    cdef bint _is_checked
    cdef bint _is_ended
    cdef object _wait
    cdef long long _wait_ms
    cdef object _event
    cdef long long _event_ms
    cdef list _settled
    cdef Py_ssize_t _given

    @cython.locals(engine=Engine, now_ms=cython.longlong)
    cdef bint _go_on(self) except -1
    @cython.locals(now_ms=cython.longlong)
    cdef _open_all(self)
    cdef _stop(self)
    cdef _start(self)
    @cython.locals(place=cython.Py_ssize_t, collected=list, is_sorted=cython.bint, last_ms=cython.longlong, row_ms=cython.longlong)
    cdef list _collect(self, bint is_wait)
    @cython.locals(row_ms=cython.longlong)
    cdef _read_wait(self)
    @cython.locals(row_ms=cython.longlong)
    cdef _read_event(self)
    cdef _next_wait(self)
    cdef _next_event(self)


@cython.locals(op_ids=set)
cdef list _first_first(list batch)
