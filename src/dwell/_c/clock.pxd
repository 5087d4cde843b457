# Python's own monotonic clock, for compiled code. On macOS `CLOCK_MONOTONIC` goes on while the machine sleeps and
# `time.monotonic()` does not, so a deadline counted on one of them cannot be compared with the other.

from libc.stdint cimport int64_t


cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    static inline int64_t dwell_monotonic_ns(void) {
        PyTime_t now = 0;
        (void)PyTime_MonotonicRaw(&now);
        return (int64_t)now;
    }
    #else
    static inline int64_t dwell_monotonic_ns(void) { return (int64_t)_PyTime_GetMonotonicClock(); }
    #endif
    """
    int64_t monotonic_ns "dwell_monotonic_ns"() noexcept nogil
