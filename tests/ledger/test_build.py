"""The readable build and its compiled twin: the same outcomes, the same signatures."""

from __future__ import annotations

import hashlib
import inspect
import random
from contextlib import suppress

import pytest

from dwell.ledger import Engine, Ledger, Replay, Ticket, replay
from tests.builds import Build, load_build
from tests.ledger.history import moments, random_history


def digest(build: Build, histories: int) -> str:
    hasher = hashlib.sha256()
    for seed in range(histories):
        rng = random.Random(seed)
        waits, events = random_history(rng)
        for as_of_ms in (None, moments(rng, waits, events)):
            run = build.replay(waits, events, as_of_ms=as_of_ms)
            hasher.update(repr(list(run)).encode())
            hasher.update(repr(run.statistics()).encode())
    return hasher.hexdigest()


def test_the_tests_run_on_the_build_they_name(build: Build) -> None:
    is_readable = build.name == "readable"
    for tested in (Engine.settle, Ledger.record, Ticket.cancel, Replay.statistics, replay):
        assert inspect.isfunction(tested) == is_readable


def test_both_builds_give_the_same_outcomes_in_the_same_order() -> None:
    assert digest(load_build("readable"), 500) == digest(load_build("compiled"), 500)


@pytest.mark.parametrize("name", ["Ledger", "Ticket", "Replay", "replay"])
def test_both_builds_have_the_same_signatures_and_docstrings(name: str) -> None:
    readable, compiled = (getattr(load_build(build), name) for build in ("readable", "compiled"))
    assert inspect.signature(compiled) == inspect.signature(readable)
    assert compiled.__doc__ == readable.__doc__
    public = [method for method in vars(readable) if not method.startswith("_")] if inspect.isclass(readable) else []
    for method in public:
        one, other = getattr(readable, method), getattr(compiled, method)
        assert inspect.getdoc(one) == inspect.getdoc(other)
        if not isinstance(inspect.getattr_static(readable, method), property):
            assert inspect.signature(one) == inspect.signature(other)


@pytest.mark.usefixtures("build")
def test_objects_whose_init_never_ran_raise_and_do_not_crash() -> None:
    with pytest.raises(TypeError):
        Ticket()  # type: ignore[call-arg]
    with suppress(AttributeError):
        assert Ledger.__new__(Ledger).statistics().opened == 0
    with suppress(AttributeError):
        assert Ledger.__new__(Ledger).explain("a") is None
    with suppress(AttributeError):
        assert Replay.__new__(Replay).statistics().opened == 0
    with pytest.raises((AttributeError, TypeError)):
        next(Replay.__new__(Replay))
