"""Waits declared as data, and what becomes of them."""
