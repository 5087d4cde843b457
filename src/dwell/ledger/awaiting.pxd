# Types for the compiled build of awaiting.py.
cimport cython

from dwell.ledger.operation cimport Operation


@cython.final
cdef class Awaiting:
    cdef object _ledger
    cdef Operation _operation
    cdef readonly object loop
    cdef object _callback
    cdef object _context
    cdef bint _is_cancelled
    cdef public bint _asyncio_future_blocking

    cpdef wake(self)


@cython.locals(awaiting=Awaiting)
cpdef Awaiting make_awaiting(ledger, Operation operation)
@cython.locals(one=Awaiting)
cpdef wake_all(list awaiting)
@cython.locals(one=Awaiting)
cpdef forget_all(list awaiting)
