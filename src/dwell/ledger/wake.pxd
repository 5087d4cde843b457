# Types for the compiled build of wake.py.
cimport cython

from dwell.ledger.awaiting cimport Awaiting, forget_all, wake_all
from dwell.ledger.operation cimport Operation


cdef class Waking:
    cdef object _on_error
    cdef object _own

    @cython.locals(operation=Operation, awaiting=dict, calls=list)
    cpdef tell(self, list awaited)
    cdef _call_all(self, list calls)
    cpdef call(self, callback)
    cpdef report(self, error, source)


cdef _wake(dict awaiting)
