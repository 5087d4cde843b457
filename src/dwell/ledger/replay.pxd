# Types for the compiled build of replay.py.
from dwell.ledger cimport item as rows
from dwell.ledger.check cimport is_usable_event, is_usable_time
from dwell.ledger.engine cimport Engine
from dwell.ledger.operation cimport Operation

cdef Py_ssize_t SUBMITTED_AT
cdef Py_ssize_t AT
cdef Py_ssize_t KEY
cdef Py_ssize_t LEVEL
