# Types for the compiled build of ticket.py.
cimport cython

from dwell.ledger.awaiting cimport Awaiting, make_awaiting
from dwell.ledger.operation cimport Operation


@cython.final
cdef class Ticket:
    cdef public object _ledger
    cdef public Operation _operation


@cython.locals(ticket=Ticket)
cpdef Ticket make_ticket(ledger, Operation operation)
