"""What `help()`, `inspect.signature` and type checkers show is the same on both builds."""

from __future__ import annotations

import ast
import inspect
import pickle
import pydoc
from pathlib import Path
from typing import Any

import pytest

import dwell.timer
from tests.builds import Build, load_build

CLASSES = ("TimerTask", "RecurringTask", "Wheels", "SystemTimer", "LoopTimer", "ManualTimer")
STUB = Path(dwell.timer.__file__).with_name("_wheels.pyi")


def parameters(function: Any) -> list[tuple[str, str, object]]:
    """Names, kinds and defaults, without `self`."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind.name, p.default) for p in found if p.name != "self"]


def public(cls: type) -> dict[str, Any]:
    names = {name for base in cls.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
    return {name: inspect.getattr_static(cls, name) for name in names}


@pytest.mark.parametrize("name", CLASSES)
def test_both_builds_have_the_same_signatures_and_docstrings(name: str) -> None:
    readable, compiled = getattr(load_build("readable"), name), getattr(load_build("compiled"), name)
    assert parameters(readable) == parameters(compiled)
    assert inspect.getdoc(readable) == inspect.getdoc(compiled)
    assert public(readable).keys() == public(compiled).keys()
    for member in public(readable):
        one, other = getattr(readable, member), getattr(compiled, member)
        assert inspect.getdoc(one) == inspect.getdoc(other), member
        assert callable(one) == callable(other), member
        if callable(one):
            assert parameters(one) == parameters(other), member


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_of_the_compiler_shines_through(build: Build, name: str) -> None:
    cls = getattr(build, name)
    text = pydoc.plain(pydoc.render_doc(cls))
    for word in ("cython", "pyx", "capsule", "vtable", "int64"):
        assert word not in text.lower().replace("buffers of int64", ""), word
    assert cls.__module__.startswith("dwell.")
    assert not any("cython" in member or "pyx" in member for member in dir(cls))


def test_a_task_cannot_be_pickled_and_says_so(build: Build) -> None:
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(build.SystemTimer(executor=build.InlineExecutor()))


def test_the_stub_of_the_compiled_module_says_what_the_readable_build_says() -> None:
    stub = {node.name: node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)}
    for name in ("TimerTask", "RecurringTask", "Wheels"):
        source = "wheels.py" if name == "Wheels" else "task.py"
        [readable] = [
            node
            for node in ast.parse(STUB.with_name(source).read_text()).body
            if isinstance(node, ast.ClassDef) and node.name == name
        ]
        assert declared(stub[name]) == declared(readable), name


def declared(cls: ast.ClassDef) -> dict[str, str]:
    """The public methods of a class, and those for the timer above, with their annotations."""
    internal = {"_insert", "_remove", "_cancel", "_fire", "_levels", "_tell", "_start_again", "_next_deadline_ms"}
    return {
        node.name: f"({ast.unparse(node.args)}) -> {node.returns and ast.unparse(node.returns)}"
        for node in cls.body
        if isinstance(node, ast.FunctionDef) and node.name not in internal
    }
