# Types for the compiled build of ledger.py.
cimport cython

from dwell.ledger cimport instant
from dwell.ledger.check cimport check_event
from dwell.ledger.engine cimport Engine
from dwell.ledger.mutex cimport Mutex
from dwell.ledger.operation cimport Operation
from dwell.ledger.ticket cimport Ticket, make_ticket
from dwell.ledger.wake cimport Waking


cdef class Ledger:
    cdef public str name
    cdef public Engine _engine
    cdef object _clock
    cdef bint _is_system
    cdef Mutex _mutex
    cdef public Waking _waking
    cdef object _bell
    cdef object _reaper
    cdef long long _alarm_ms
    cdef long long _max_open
    cdef bint _closed
    cdef object __weakref__

    @cython.locals(engine=Engine, before=cython.longlong, completed=cython.longlong)
    cpdef record(self, key, level=*)
    @cython.locals(now_ms=cython.longlong, expired=cython.longlong)
    cdef long long _enter(self, bint even_closed) except? -1
    @cython.locals(settled=list, awaited=list, operation=Operation)
    cdef _leave(self)
    cdef _look(self)
    cdef _wake_reaper(self)
    cpdef bint _add_waiter(self, Operation operation, waiter) except -1
    cpdef _remove_waiter(self, Operation operation, waiter)
    cpdef bint _cancel(self, Operation operation) except -1
