# `histogram.py` for compiled code: where a value is counted.

from libc.stdint cimport int64_t

cdef enum:
    PLACES = 22


cdef inline int place_of(int64_t value) noexcept nogil:
    cdef int place = 0
    while value > 0 and place < PLACES - 1:
        value >>= 1
        place += 1
    return place
