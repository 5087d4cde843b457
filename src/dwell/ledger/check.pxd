# Types for the compiled build of check.py.

cpdef fault(op_id, needs, delay_ms, submitted_at_ms, quorum, volume)
cdef _fault_of_needs(needs)
cdef _fault_of_condition(needs, quorum, volume)
cpdef tuple content(row)
