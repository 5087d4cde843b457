# Types for the compiled build of check.py.
cimport cython

from dwell.ledger cimport item as rows

cdef long long MIN_MS
cdef long long MAX_MS


cpdef fault(op_id, needs, delay_ms, submitted_at_ms, quorum, volume)
cdef _fault_of_needs(needs)
cdef _fault_of_condition(needs, quorum, volume)
cpdef tuple content(row)
@cython.locals(number=cython.longlong)
cpdef bint is_usable_time(at_ms) except -1
cpdef bint is_usable_event(event) except -1
cpdef check_event(key, level)
