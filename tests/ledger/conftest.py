"""Every test in this folder runs on both builds of the ledger.

A test module imports the names it tests as usual. For each test the fixture `build` puts the names of one build in
their place, in the test module and in the packages that documents and helpers import from.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

import dwell
import dwell.ledger
from dwell.ledger.build import BUILD, COMPILED, SourceFinder


def modules() -> dict[str, ModuleType]:
    return {name: importlib.import_module(f"dwell.ledger.{name}") for name in COMPILED}


def readable_modules() -> dict[str, ModuleType]:
    """The sources of the compiled modules, imported beside them."""
    imported = modules()
    # The package's own names: `replay` is a function there, not the module.
    names = {name: getattr(dwell.ledger, name) for name in COMPILED}
    for name in COMPILED:
        del sys.modules[f"dwell.ledger.{name}"]
    sys.meta_path.insert(0, SourceFinder)
    try:
        return modules()
    finally:
        sys.meta_path.remove(SourceFinder)
        for name, module in imported.items():
            sys.modules[f"dwell.ledger.{name}"] = module
            setattr(dwell.ledger, name, names[name])


BUILDS = {"readable": modules()} if BUILD == "readable" else {"readable": readable_modules(), "compiled": modules()}


@pytest.fixture(params=BUILDS, autouse=True)
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of one build by their names."""
    chosen = BUILDS[request.param]
    for module in chosen.values():
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == module.__name__:
                for place in (request.module, dwell.ledger, dwell):
                    if hasattr(place, name):
                        monkeypatch.setattr(place, name, value)
    return chosen
