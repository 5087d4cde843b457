"""The wheel driven by hand with integers: the tables of its docstring, and every small geometry."""

from __future__ import annotations

import pytest

from dwell.timer import DelayQueue, TimerTask, TimerTaskEntry, TimingWheel


def make(tick_ms: int = 1, wheel_size: int = 3, start_ms: int = 0) -> TimingWheel:
    return TimingWheel(tick_ms, wheel_size, start_ms, DelayQueue())


def entry(wheel: TimingWheel, expiration_ms: int) -> TimerTaskEntry:
    return TimerTaskEntry(TimerTask(0, int), expiration_ms)


def place(wheel: TimingWheel, expiration_ms: int) -> tuple[int, int] | None:
    """(tick of the level, start of the bucket) where a task ends up; None if it is due."""
    task = entry(wheel, expiration_ms)
    if not wheel.add(task):
        return None
    assert task.task_list is not None
    level: TimingWheel | None = wheel
    while level is not None:
        if task.task_list in level.buckets:
            return level.tick_ms, task.task_list.expiration_ms
        level = level.overflow_wheel
    raise AssertionError("in no level")


def test_the_tables_of_the_docstring() -> None:
    wheel = make()
    assert place(wheel, 0) is None
    assert [place(wheel, time_ms) for time_ms in (1, 2)] == [(1, 1), (1, 2)]
    assert [place(wheel, time_ms) for time_ms in (3, 5, 6, 7, 8)] == [(3, 3), (3, 3), (3, 6), (3, 6), (3, 6)]
    assert [place(wheel, time_ms) for time_ms in (9, 17, 18, 23, 26)] == [
        (9, 9),
        (9, 9),
        (9, 18),
        (9, 18),
        (9, 18),
    ]
    wheel.advance_clock(6)
    assert place(wheel, 6) is None
    assert [place(wheel, time_ms) for time_ms in (7, 8)] == [(1, 7), (1, 8)]
    assert [place(wheel, time_ms) for time_ms in (9, 12, 14)] == [(3, 9), (3, 12), (3, 12)]
    wheel.advance_clock(18)
    assert place(wheel, 23) == (3, 21)
    wheel.advance_clock(21)
    assert place(wheel, 23) == (1, 23)


@pytest.mark.parametrize("wheel_size", [2, 3, 5, 20])
@pytest.mark.parametrize("start_ms", [0, 7, 1_000_003])
def test_a_bucket_starts_no_later_than_its_tasks_and_spans_one_tick_of_its_level(
    wheel_size: int, start_ms: int
) -> None:
    wheel = make(1, wheel_size, start_ms)
    for distance in range(1, wheel_size**3 + 5):
        found = place(wheel, start_ms + distance)
        assert found is not None
        tick_ms, bucket_ms = found
        assert bucket_ms <= start_ms + distance < bucket_ms + tick_ms
        assert tick_ms == 1 or distance >= tick_ms - start_ms % tick_ms, "a lower level would have reached"


def test_each_bucket_is_queued_once_until_it_is_flushed() -> None:
    wheel = make(1, 20)
    for _ in range(5):
        wheel.add(entry(wheel, 7))
    assert len(wheel.queue.heap) == 1
    bucket = wheel.queue.poll(7)
    assert bucket is not None
    assert wheel.queue.poll(100) is None
    assert len(bucket.flush()) == 5
    assert bucket.flush() == []
    wheel.advance_clock(7)
    wheel.add(entry(wheel, 27 - 20 + 19))
    assert len(wheel.queue.heap) == 1


def test_the_clock_of_the_wheel_never_goes_back() -> None:
    wheel = make(10, 3, 25)
    assert wheel.current_ms == 20
    wheel.advance_clock(40)
    wheel.advance_clock(30)
    assert wheel.current_ms == 40
