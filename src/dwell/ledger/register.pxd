# Types for the compiled build of register.py.
cimport cython

from dwell.ledger.operation cimport Operation

cdef Py_ssize_t TOLERATED


@cython.final
cdef class Register:
    cdef public dict operations
    cdef dict _refused
    cdef bint _forgets
    cdef long long _retention_ms
    cdef list _past
    cdef Py_ssize_t _forgotten

    @cython.locals(refused=dict)
    cdef Operation refuse(self, Operation op, tuple content)
    cdef retire(self, Operation op)
    @cython.locals(past=list, op=Operation, refused=dict)
    cdef forget(self, long long now_ms)
