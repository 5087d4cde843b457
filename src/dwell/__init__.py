"""Delayed operations: wait for events on keys or for time to run out, with exactly one outcome."""
