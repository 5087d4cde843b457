"""The agenda: calls in order, outside everybody's stack."""

from __future__ import annotations

import pytest

from dwell.broker import agenda as module
from dwell.broker.agenda import Agenda


def test_calls_are_made_in_order_with_those_they_put() -> None:
    agenda = Agenda()
    made: list[str] = []

    def first() -> None:
        made.append("a")
        agenda.put(lambda: made.append("c"))

    agenda.put(first)
    agenda.put(lambda: made.append("b"))
    agenda.drain()
    assert made == ["a", "b", "c"]
    assert len(agenda) == 0


def test_a_call_that_raises_harms_no_other() -> None:
    errors: list[BaseException] = []
    agenda = Agenda(on_error=lambda error, _: errors.append(error))
    made: list[int] = []
    agenda.put(lambda: 1 / 0)
    agenda.put(lambda: made.append(1))
    agenda.drain()
    assert made == [1]
    assert isinstance(errors[0], ZeroDivisionError)


def test_it_wakes_once_until_it_is_drained() -> None:
    woken: list[int] = []
    agenda = Agenda(lambda: woken.append(1))
    agenda.put(lambda: None)
    agenda.put(lambda: None)
    assert len(woken) == 1
    agenda.drain()
    agenda.put(lambda: None)
    assert len(woken) == 2


def test_a_long_drain_lets_the_loop_go_on_and_is_woken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_S", 0)
    woken: list[int] = []
    agenda = Agenda(lambda: woken.append(1))
    made: list[int] = []
    for number in range(module.CHUNK + 1):
        agenda.put(lambda number=number: made.append(number))  # type: ignore[misc]
    assert not agenda.drain_slice()
    assert made == list(range(module.CHUNK))
    assert len(woken) == 2
    assert agenda.drain_slice()
    assert len(made) == module.CHUNK + 1
