"""What all engines must agree on about an outcome: ledger, replay, Spark tables and Spark streams.

`reason.py` says why an operation is rejected, `order.py` which of several rows under one op_id counts, `time_range.py`
which times are usable, `columns.py` has the columns in and out. All of it is pure Python without imports from the rest
of dwell, so that a Spark worker can load it from a zip file. docs/contract.md has the rules in words.
"""
