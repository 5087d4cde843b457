"""What stands in for Cython's directives where the source runs as it is: a class stays what it is."""

from __future__ import annotations

from typing import TypeVar

Class = TypeVar("Class", bound=type)


def cclass(cls: Class) -> Class:
    """Compiled, the class is an extension type, with the fields its .pxd declares."""
    return cls


def no_gc(cls: Class) -> Class:
    """Compiled, the cyclic collector neither counts nor visits the instances."""
    return cls
