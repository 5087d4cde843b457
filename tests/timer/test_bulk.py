"""The bulk calls, on int64 buffers."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from dwell.errors import Closed, InvalidType
from dwell.testing import InlineExecutor, ManualClock
from tests.builds import Build


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def timer(build: Build, clock: ManualClock) -> Any:
    return build.SystemTimer(clock=clock, executor=InlineExecutor())


def test_handles_come_back_when_they_expire(timer: Any, clock: ManualClock) -> None:
    handles = timer.add_many(array("q", [30, 10, 20]))
    assert isinstance(handles, array)
    assert len(set(handles)) == 3
    clock.advance(20)
    assert list(timer.advance_many(0)) == [handles[1], handles[2]]
    clock.advance(10)
    assert list(timer.advance_many()) == [handles[0]]
    assert list(timer.advance_many()) == []


def test_tokens_come_back_in_place_of_handles(timer: Any, clock: ManualClock) -> None:
    timer.add_many(array("q", [5, 0, 9]), array("q", [-7, 2**63 - 1, 0]))
    assert list(timer.advance_many()) == [2**63 - 1]
    clock.advance(9)
    assert list(timer.advance_many()) == [-7, 0]


def test_what_advance_clock_expired_is_kept_for_advance_many(timer: Any, clock: ManualClock) -> None:
    timer.add_many(array("q", [5]), array("q", [1]))
    clock.advance(5)
    assert timer.advance_clock(0)
    timer.add_many(array("q", [5]), array("q", [2]))
    clock.advance(5)
    assert list(timer.advance_many()) == [1, 2]


def test_cancel_many_passes_over_what_fired_was_cancelled_or_never_was(timer: Any, clock: ManualClock) -> None:
    handles = timer.add_many(array("q", [5, 6, 7]))
    clock.advance(5)
    timer.advance_many()
    assert timer.cancel_many(array("q", [handles[0], handles[1], handles[1], -1, 2**62, 999])) == 1
    assert timer.size == 1
    # The places of those gone are taken by others, whom old handles must not touch.
    timer.add_many(array("q", [50] * 10))
    assert timer.cancel_many(handles) == 1
    assert timer.size == 10


def test_tasks_and_handles_share_one_timer(build: Build, timer: Any, clock: ManualClock) -> None:
    ran: list[int] = []
    timer.schedule(5, lambda: ran.append(5))
    timer.add_many(array("q", [5, 6]), array("q", [50, 60]))
    assert timer.size == 3
    clock.advance(6)
    assert list(timer.advance_many()) == [50, 60]
    assert ran == [5]


def test_plain_sequences_of_ints_will_do(timer: Any, clock: ManualClock) -> None:
    handles = timer.add_many([30, 10], tokens=(300, 100))
    timer.add_many(range(1, 4))
    assert timer.size == 5
    assert timer.cancel_many([handles[0]]) == 1
    clock.advance(30)
    assert len(timer.advance_many()) == 4


def test_numpy_arrays_and_memoryviews_are_buffers(timer: Any, clock: ManualClock) -> None:
    numpy = pytest.importorskip("numpy")
    handles = timer.add_many(numpy.array([3, 1], dtype=numpy.int64), memoryview(array("q", [8, 9])))
    clock.advance(1)
    assert numpy.frombuffer(timer.advance_many(), dtype=numpy.int64).tolist() == [9]
    assert timer.cancel_many(numpy.frombuffer(handles, dtype=numpy.int64)) == 1


@pytest.mark.parametrize(
    "buffer", [["x"], [1.5], [True], 5, "ab", b"12345678", array("i", [1]), array("d", [1.0]), None]
)
def test_other_things_are_refused_by_name(timer: Any, buffer: object) -> None:
    with pytest.raises(InvalidType, match=r"delays_ms(\[0\])? must be"):
        timer.add_many(buffer)
    with pytest.raises(InvalidType, match=r"handles(\[0\])? must be"):
        timer.cancel_many(buffer)


def test_as_many_tokens_as_delays(timer: Any) -> None:
    with pytest.raises(InvalidType, match="tokens has 1 items, delays_ms has 2"):
        timer.add_many(array("q", [1, 2]), array("q", [1]))


def test_after_close_there_is_no_bulk_either(timer: Any) -> None:
    timer.close()
    with pytest.raises(Closed):
        timer.add_many(array("q", [1]))


def test_waiting_handles_are_nothing_to_the_collector(build: Build, timer: Any) -> None:
    import gc

    if build.name == "readable":
        return
    gc.collect()
    before = len(gc.get_objects())
    timer.add_many(array("q", range(1, 20_001)))
    tasks = [timer.schedule(60_000, int) for _ in range(20_000)]
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    tasks[0].cancel()
    assert gc.is_tracked(tasks[0])


def test_cancel_many_passes_over_handles_of_another_timer(build: Build, timer: Any, clock: ManualClock) -> None:
    other = build.SystemTimer(clock=clock, executor=InlineExecutor())
    timer.add_many([1, 1])
    for _ in range(2):
        foreign = other.add_many([1, 1])
        clock.advance(1)
        other.advance_many()
    assert len(timer.advance_many()) == 2
    assert timer.cancel_many(foreign) == 0
    timer._check()
