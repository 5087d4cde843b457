"""Declarations for compiled code. A `.pxd` here is all header: it becomes part of every module that cimports it."""
