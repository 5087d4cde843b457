"""Settling streams: a purgatory on top of Structured Streaming.

clock.py    up to which moment everything is known: one watermark, the same in every shard
table.py    the tables that travel and that are kept, as Arrow batches
timeline.py the events of some keys in order of time, and what they say of a need
meet.py     stage 1, by key: which needs were met between two watermarks
decide.py   stage 2, by operation: which operations that settles
store.py    the state variables in which a shard's rows lie
journal.py  what a shard keeps where, and when it is read and rewritten
keys.py, operations.py   one shard of each stage for one micro-batch: rows in, decisions out, journal kept
passing.py  the columns that pass through, and what may become of their types over a checkpoint
spread.py   what the shards are called, so that they spread evenly over Spark's partitions
pack.py     rows to shards before the shuffle, outcomes back to rows after it
plan.py     the streaming query made of these
"""
