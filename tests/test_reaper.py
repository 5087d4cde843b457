"""The reaper loop. No test waits for time: turns are counted, and let go one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue

from dwell.reaper import Reaper


def test_it_turns_until_closed_and_survives_exceptions() -> None:
    errors: list[BaseException] = []
    turned = threading.Event()
    turns: Iterator[BaseException | bool] = iter([ZeroDivisionError(), SystemExit(), True, False])

    def turn() -> bool:
        result = next(turns, None)
        if result is None:
            turned.set()
            return False
        if isinstance(result, BaseException):
            raise result
        return result

    reaper = Reaper("dwell-test", turn, lambda error, source: errors.append(error))
    reaper.start()
    reaper.start()
    assert turned.wait(10)
    reaper.close()
    reaper.close()
    assert [type(error) for error in errors] == [ZeroDivisionError, SystemExit]
    assert not any(thread.name == "dwell-test" for thread in threading.enumerate())


def test_a_handler_that_raises_does_not_end_it() -> None:
    turned = threading.Event()
    turns: list[int] = []

    def turn() -> bool:
        turns.append(1)
        if len(turns) == 1:
            raise ValueError("a turn that fails")
        turned.set()
        return False

    def handler(error: BaseException, source: object) -> None:
        raise RuntimeError("a handler that fails")

    reaper = Reaper("dwell-test", turn, handler)
    reaper.start()
    assert turned.wait(10)
    reaper.close()


def test_closing_wakes_a_turn_that_waits() -> None:
    gate: SimpleQueue[bool] = SimpleQueue()
    reaper = Reaper("dwell-test", gate.get, lambda error, source: None, wake=lambda: gate.put(False))
    reaper.start()
    reaper.close()
    assert not any(thread.name == "dwell-test" for thread in threading.enumerate())


def test_it_can_be_closed_from_its_own_turn_and_before_it_was_started() -> None:
    closed = threading.Event()

    def turn() -> bool:
        assert reaper.is_current
        reaper.close()
        closed.set()
        return True

    reaper = Reaper("dwell-test", turn, lambda error, source: None)
    reaper.start()
    assert closed.wait(10)

    never = Reaper("dwell-test", turn, lambda error, source: None)
    never.close()
    never.start()
    assert not never.is_current
