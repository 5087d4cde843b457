# Types for the compiled build of ledger.py.
cimport cython

from dwell.ledger.engine cimport Engine
from dwell.ledger.operation cimport Operation
from dwell.ledger.ticket cimport Ticket, make_ticket
from dwell.ledger.wake cimport Waking


cdef class Ledger:
    cdef public str name
    cdef public Engine _engine
    cdef object _clock
    cdef object _lock
    cdef public Waking _waking
    cdef object _timer
    cdef object _alarm
    cdef object _reaper
    cdef long long _alarm_ms
    cdef long long _max_open
    cdef bint _closed
    cdef object __weakref__

    cdef _enter(self)
    @cython.locals(settled=list, awaited=list, operation=Operation)
    cdef list _take_settled(self)
    @cython.locals(engine=Engine, before=cython.longlong, completed=cython.longlong, awaited=list)
    cpdef record(self, key, level=*)
    cpdef bint _add_waiter(self, Operation operation, waiter) except -1
    cpdef _remove_waiter(self, Operation operation, waiter)
