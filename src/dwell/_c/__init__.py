"""Declarations for compiled code: a `.pxd` here is all header, and is part of every module that cimports it."""
