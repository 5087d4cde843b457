# Types for the compiled build of replay.py.
from dwell.ledger.engine cimport Engine
from dwell.ledger.operation cimport Operation
