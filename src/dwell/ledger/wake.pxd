# Types for the compiled build of wake.py.
cimport cython

from dwell.ledger.operation cimport Operation


cdef class Waking:
    cdef object _on_error
    cdef object _own

    cpdef tell(self, list awaited)
    @cython.locals(operation=Operation, futures=dict)
    cdef _tell_all(self, queue)
    cdef _tell(self, waiter, dict futures)
    cpdef call(self, callback)
