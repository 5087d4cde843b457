# The compiled build of instant.py.

from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef inline long long now_ms(clock, bint is_system) except? -1:
    cdef timespec time
    if is_system:
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1000 + time.tv_nsec // 1000000
    return clock.now_ms()
