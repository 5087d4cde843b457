"""Both builds of the layers in one process, as CPython tests `heapq` and `_heapq` (`import_fresh_module`).

The modules of a layer are imported once more, with the environment variable that chooses the build. What does not
depend on the build (clock, errors, values) is not imported again, so that `pytest.raises(InvalidArgument)` and
comparisons of values hold for both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

LAYERS = ("dwell.timer", "dwell.aio", "dwell.testing", "dwell.purgatory", "dwell.ledger")

# Modules of the layers that do not depend on the build: the same objects in both.
SHARED = (
    "dwell.timer.executor",
    "dwell.timer.statistics",
    "dwell.purgatory.statistics",
    "dwell.ledger.row",
    "dwell.ledger.statistics",
    "dwell.ledger.explanation",
)


class Build:
    """The modules of one build. A public name of any layer is an attribute."""

    def __init__(self, name: str, modules: dict[str, ModuleType]) -> None:
        self.name = name
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        for layer in LAYERS:
            if name in getattr(self.modules[layer], "__all__", ()):
                found = getattr(self.modules[layer], name, None)
                if found is not None:
                    return found
        raise AttributeError(f"no layer has {name!r}")

    def module(self, name: str) -> Any:
        """A module of a layer in this build, such as `dwell.timer.wheel`."""
        with self.installed():
            return import_module(name)

    def __repr__(self) -> str:
        return f"<the {self.name} build>"

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let `import` find the modules of this build."""
        before = _layer_modules()
        _install(self.modules)
        try:
            yield
        finally:
            self.modules = _layer_modules()
            _install(before)


@cache
def load_build(name: str) -> Build:
    """Import the layers as the build `name` ("readable" or "compiled"). Skips if there is no compiled one."""
    variable, finders = os.environ.get("DWELL_REFERENCE"), list(sys.meta_path)
    # What does not depend on the build is loaded before, and stays.
    for module in (*LAYERS, *SHARED):
        import_module(module)
    before = _layer_modules()
    if name == before["dwell.timer"].BUILD:
        return Build(name, before)
    for module in before:
        if module not in SHARED:
            del sys.modules[module]
    os.environ["DWELL_REFERENCE"] = "1" if name == "readable" else "0"
    try:
        for module in LAYERS:
            import_module(module)
        after = _layer_modules()
    finally:
        sys.meta_path[:] = finders
        if variable is None:
            del os.environ["DWELL_REFERENCE"]
        else:
            os.environ["DWELL_REFERENCE"] = variable
        _install(before)
    if name != after["dwell.timer"].BUILD:
        pytest.skip(f"there is no {name} build here: it needs a C compiler when dwell is installed")
    return Build(name, after)


def _layer_modules() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.startswith(LAYERS)}


def _install(modules: dict[str, ModuleType]) -> None:
    for name in _layer_modules():
        if name not in modules:
            del sys.modules[name]
    sys.modules.update(modules)
    for layer in LAYERS:
        setattr(sys.modules["dwell"], layer.removeprefix("dwell."), modules[layer])
