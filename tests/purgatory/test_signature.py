"""`help()`, `inspect.signature` and type checkers see the same on both builds."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import pytest

from tests.builds import Build, load_build

CLASSES = ("DelayedOperation", "Purgatory")


def public_names(cls: Any) -> set[str]:
    """Those that the class itself defines; what an operation has from the timer is the timer's."""
    return {name for name in vars(cls) if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, object]]:
    return [
        (parameter.name, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_both_builds_have_the_same_members_with_the_same_parameters_and_words(name: str) -> None:
    readable, compiled = (getattr(load_build(build), name) for build in ("readable", "compiled"))
    assert parameters(compiled) == parameters(readable)
    assert public_names(compiled) == public_names(readable)
    for member in public_names(readable):
        of_readable, of_compiled = getattr(readable, member), getattr(compiled, member)
        assert inspect.getdoc(of_compiled) == inspect.getdoc(of_readable), member
        if callable(of_readable):
            assert parameters(of_compiled) == parameters(of_readable), member
            assert inspect.iscoroutinefunction(of_compiled) == inspect.iscoroutinefunction(of_readable)


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_member_says_what_it_does(build: Build, name: str) -> None:
    cls = getattr(build, name)
    assert inspect.getdoc(cls)
    for member in public_names(cls):
        assert inspect.getdoc(getattr(cls, member)), member


@pytest.mark.parametrize("name", CLASSES)
def test_help_shows_nothing_of_the_compiler(build: Build, name: str) -> None:
    cls = getattr(build, name)
    page = pydoc.plain(pydoc.render_doc(cls))
    assert "pyx" not in page
    assert not any("cython" in member for member in vars(cls))


def test_what_is_told_about_a_purgatory_cannot_be_changed(build: Build) -> None:
    with build.Purgatory("p", reaper=False) as purgatory:
        for name in ("name", "timer", "clock", "purge_interval"):
            with pytest.raises(AttributeError):
                setattr(purgatory, name, None)
