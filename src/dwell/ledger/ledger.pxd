# Types for the compiled build of ledger.py.
from dwell.ledger.engine cimport Engine


cdef class Ledger:
    cdef public str name
    cdef public Engine _engine
    cdef object _clock
    cdef object _lock
    cdef public object _waking
    cdef object _timer
    cdef object _alarm
    cdef object _reaper
    cdef long long _alarm_ms
    cdef long long _max_open
    cdef bint _closed
    cdef object __weakref__

    cdef _enter(self)
    cdef _take_settled(self)
