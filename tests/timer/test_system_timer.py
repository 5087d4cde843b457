"""What a timer promises, on both builds."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from time import monotonic_ns
from typing import Any

import pytest

from dwell.clock import SystemClock
from dwell.errors import Closed, InvalidArgument, InvalidType
from dwell.testing import InlineExecutor, ManualClock
from tests.builds import Build

FOREVER_MS = 2**63 - 1


class Bench:
    """A timer on a manual clock that runs tasks inline, and a log of what ran when."""

    def __init__(self, build: Build, start_ms: int = 0, **options: Any) -> None:
        self.build = build
        self.clock = ManualClock(start_ms)
        self.errors: list[tuple[BaseException, object]] = []
        self.timer = build.SystemTimer(
            clock=self.clock,
            executor=InlineExecutor(),
            on_error=lambda error, source: self.errors.append((error, source)),
            **options,
        )
        self.log: list[tuple[int, str]] = []

    def task(self, delay_ms: int, name: str = "task") -> Any:
        return self.build.TimerTask(delay_ms, lambda: self.log.append((self.clock.now_ms(), name)))

    def add(self, delay_ms: int, name: str = "task") -> Any:
        task = self.task(delay_ms, name)
        self.timer.add(task)
        return task

    def advance(self, ms: int, step_ms: int = 1) -> None:
        for _ in range(0, ms, step_ms):
            self.clock.advance(step_ms)
            self.timer.advance_clock(0)
            self.timer._check()


@pytest.fixture
def bench(build: Build) -> Bench:
    return Bench(build)


@pytest.mark.parametrize("delay_ms", [1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 8_001])
def test_a_task_runs_exactly_at_its_deadline_when_the_tick_is_one(bench: Bench, delay_ms: int) -> None:
    bench.add(delay_ms)
    bench.advance(delay_ms + 30)
    assert bench.log == [(delay_ms, "task")]


@pytest.mark.parametrize("tick_ms", [2, 7, 10, 1000])
@pytest.mark.parametrize("start_ms", [0, 5, 1_795_000_000_123])
def test_with_a_coarse_tick_a_task_is_never_early_and_less_than_a_tick_late(
    build: Build, tick_ms: int, start_ms: int
) -> None:
    bench = Bench(build, start_ms, tick_ms=tick_ms)
    for delay_ms in range(1, 3 * tick_ms, max(1, tick_ms // 7)):
        bench.add(delay_ms, str(delay_ms))
    bench.advance(5 * tick_ms)
    assert bench.log
    for ran_ms, delay in bench.log:
        assert start_ms + int(delay) <= ran_ms < start_ms + int(delay) + tick_ms


def test_a_delay_of_zero_or_less_runs_at_once_also_on_a_timer_that_was_idle_for_hours(bench: Bench) -> None:
    bench.add(0, "fresh")
    bench.clock.advance(3 * 3_600_000)
    bench.add(0, "idle")
    bench.add(-5, "negative")
    assert bench.log == [(0, "fresh"), (10_800_000, "idle"), (10_800_000, "negative")]
    assert bench.timer.size == 0


def test_a_short_task_on_an_idle_timer_is_on_time_though_it_lands_in_a_far_bucket(bench: Bench) -> None:
    bench.add(3)
    bench.advance(3)
    bench.clock.advance(3_600_000)
    bench.add(5, "short")
    bench.advance(5)
    assert bench.log[-1] == (3_600_008, "short")


def test_tasks_of_one_bucket_run_in_insertion_order_also_after_cancels_and_cascades(bench: Bench) -> None:
    tasks = [bench.add(5_000, str(i)) for i in range(1000)]
    for task in tasks[::3] + tasks[1::3]:
        task.cancel()
    bench.advance(5_000, step_ms=100)
    assert [name for _, name in bench.log] == [str(i) for i in range(2, 1000, 3)]


def test_different_ticks_run_in_order_even_if_the_clock_jumps(bench: Bench) -> None:
    for delay_ms in (9_000, 21, 20, 450, 1, 8_000, 400, 19):
        bench.add(delay_ms, str(delay_ms))
    bench.clock.advance(100_000)
    assert bench.timer.advance_clock(0)
    assert [int(name) for _, name in bench.log] == [1, 19, 20, 21, 400, 450, 8_000, 9_000]


def test_advance_says_whether_a_bucket_expired(bench: Bench) -> None:
    assert not bench.timer.advance_clock(0)
    bench.add(10)
    bench.clock.advance(9)
    assert not bench.timer.advance_clock(0)
    bench.clock.advance(1)
    assert bench.timer.advance_clock(0)


def test_cancel_is_idempotent_and_frees_at_once(bench: Bench) -> None:
    task = bench.add(100)
    assert task.is_pending
    assert task.deadline_ms == 100
    assert task.cancel()
    assert not task.cancel()
    assert task.is_cancelled
    assert bench.timer.size == 0
    bench.advance(200, step_ms=10)
    assert bench.log == []
    assert bench.timer.statistics().cancelled == 1


def test_cancel_before_add_does_not_prevent_a_later_add(bench: Bench) -> None:
    task = bench.task(5)
    assert not task.cancel()
    bench.timer.add(task)
    assert not task.is_cancelled
    bench.advance(5)
    assert bench.log == [(5, "task")]


def test_adding_a_waiting_task_moves_it(bench: Bench) -> None:
    task = bench.add(10)
    bench.advance(7)
    bench.timer.add(task)
    assert bench.timer.size == 1
    bench.advance(20)
    assert bench.log == [(17, "task")]
    assert bench.timer.statistics().cancelled == 0


def test_adding_to_another_timer_moves_it_there(build: Build) -> None:
    first, second = Bench(build), Bench(build)
    task = first.add(10)
    second.timer.add(task)
    assert (first.timer.size, second.timer.size) == (0, 1)
    first.advance(20)
    second.advance(20)
    assert first.log == [(20, "task")]  # the task logs to its maker, when the second timer runs it


def test_a_task_that_ran_may_be_added_again_also_by_itself(bench: Bench) -> None:
    class Again(bench.build.TimerTask):  # type: ignore[misc,name-defined]
        def run(self) -> None:
            bench.log.append((bench.clock.now_ms(), "again"))
            if len(bench.log) < 3:
                bench.timer.add(self)

    bench.timer.add(Again(10))
    bench.advance(100)
    assert [ran_ms for ran_ms, _ in bench.log] == [10, 20, 30]


def test_reschedule_moves_in_place_and_starts_an_idle_task(bench: Bench) -> None:
    task = bench.add(10)
    bench.advance(5)
    bench.timer.reschedule(task, 50)
    assert task.deadline_ms == 55
    assert task.delay_ms == 50
    bench.advance(60)
    bench.timer.reschedule(task, 1)
    bench.advance(5)
    assert [ran_ms for ran_ms, _ in bench.log] == [55, 66]


def test_a_recurring_task_does_not_drift_and_skips_what_it_missed(bench: Bench) -> None:
    runs: list[int] = []
    task = bench.build.RecurringTask(10, lambda: runs.append(bench.clock.now_ms()), delay_ms=3)
    bench.timer.add(task)
    bench.advance(25)
    assert runs == [3, 13, 23]
    bench.clock.advance(100)  # now 125: the runs at 33 .. 123 were missed, one stands for them
    bench.timer.advance_clock(0)
    bench.advance(10)
    assert runs == [3, 13, 23, 125, 133]
    task.cancel()
    bench.advance(50)
    assert len(runs) == 5


def test_a_recurring_task_can_cancel_itself_while_it_runs(bench: Bench) -> None:
    runs: list[int] = []

    def run() -> None:
        runs.append(bench.clock.now_ms())
        if len(runs) == 2:
            task.cancel()

    task = bench.build.RecurringTask(10, run)
    bench.timer.add(task)
    bench.advance(100)
    assert runs == [10, 20]
    assert bench.timer.size == 0


def test_an_exception_reaches_the_handler_and_harms_no_other_task(bench: Bench) -> None:
    bad = bench.build.TimerTask(5, lambda: 1 // 0)
    bench.timer.add(bad)
    bench.add(5, "good")
    bench.advance(5)
    assert bench.log == [(5, "good")]
    [(error, source)] = bench.errors
    assert isinstance(error, ZeroDivisionError)
    assert source is bad


def test_without_a_handler_the_exception_is_logged_with_its_traceback(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    timer = build.SystemTimer(clock=clock, executor=InlineExecutor())
    timer.schedule(0, lambda: 1 // 0)
    [record] = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    assert record.exc_info[2] is not None


def test_a_handler_that_raises_is_survived(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    def handler(error: BaseException, source: object) -> None:
        raise RuntimeError("handler broke")

    timer = build.SystemTimer(clock=ManualClock(), executor=InlineExecutor(), on_error=handler)
    timer.schedule(0, lambda: 1 // 0)
    assert "handler broke" in caplog.text


def test_an_interrupt_passes_through_and_the_other_due_tasks_are_not_lost(bench: Bench) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    bench.add(5, "before")
    bench.timer.schedule(5, interrupt)
    bench.add(5, "after")
    bench.clock.advance(5)
    with pytest.raises(KeyboardInterrupt):
        bench.timer.advance_clock(0)
    bench.add(1, "next")
    bench.advance(1)
    assert [name for _, name in bench.log] == ["before", "after", "next"]


def test_what_an_interrupt_left_over_runs_with_the_next_advance_though_nothing_else_expires(bench: Bench) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    bench.timer.schedule(5, interrupt)
    bench.add(5, "after")
    bench.clock.advance(5)
    with pytest.raises(KeyboardInterrupt):
        bench.timer.advance_clock(0)
    bench.timer.advance_clock(3_600_000)  # does not wait: the clock stands still
    assert bench.log == [(5, "after")]


class Interrupted(Executor):
    """Passes an interrupt on when it is given its second piece of work."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        if self.submitted == 2:
            raise KeyboardInterrupt
        fn(*args, **kwargs)
        return Future()


def test_an_executor_that_is_interrupted_gets_the_rest_with_the_next_advance(build: Build) -> None:
    clock = ManualClock()
    timer = build.SystemTimer(clock=clock, executor=Interrupted())
    ran: list[int] = []
    for name in range(4):
        timer.schedule(5, lambda name=name: ran.append(name))
    clock.advance(5)
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)
    timer.advance_clock(0)
    assert ran == [0, 1, 2, 3]


def test_a_task_that_advances_the_clock_does_not_recurse(bench: Bench) -> None:
    depth = [0]

    def nest() -> None:
        depth[0] += 1
        assert depth[0] == 1
        bench.clock.advance(1)
        bench.timer.advance_clock(0)
        depth[0] -= 1

    for delay_ms in range(1, 500):
        bench.timer.schedule(delay_ms, nest)
    bench.advance(1)
    assert bench.timer.size == 0
    assert bench.errors == []


@pytest.mark.parametrize("delay_ms", [FOREVER_MS, FOREVER_MS - 1, 2**63, 2**80])
def test_delays_saturate_and_there_is_no_horizon(build: Build, delay_ms: int) -> None:
    bench = Bench(build, 1_795_000_000_000)
    task = bench.add(delay_ms)
    assert task.deadline_ms == FOREVER_MS
    bench.clock.advance(10**15)
    bench.timer.advance_clock(0)
    bench.timer._check()
    assert bench.log == []
    bench.clock.advance(FOREVER_MS - bench.clock.now_ms())
    bench.timer.advance_clock(0)
    assert bench.log == [(FOREVER_MS, "task")]


@pytest.mark.parametrize("delay_ms", [True, 1.5, "5", None, float("nan"), [1]])
def test_a_delay_that_is_no_int_is_named_in_the_error(bench: Bench, delay_ms: object) -> None:
    calls: list[Callable[[], object]] = [
        lambda: bench.build.TimerTask(delay_ms, int),
        lambda: bench.timer.schedule(delay_ms, int),
        lambda: bench.timer.reschedule(bench.task(5), delay_ms),
    ]
    for call in calls:
        with pytest.raises(InvalidType, match="delay_ms") as raised:
            call()
        assert repr(delay_ms) in str(raised.value)


def test_numpy_integers_are_ints(bench: Bench) -> None:
    numpy = pytest.importorskip("numpy")
    bench.timer.add(bench.task(numpy.int32(5)))
    bench.advance(5)
    assert bench.log == [(5, "task")]


def test_misuse_raises_at_the_call(bench: Bench) -> None:
    build = bench.build
    with pytest.raises(InvalidType, match="add takes a TimerTask, not str: 'x'"):
        bench.timer.add("x")
    with pytest.raises(InvalidArgument, match="callback"):
        build.TimerTask(5)
    with pytest.raises(InvalidArgument, match="callback"):
        build.RecurringTask(5)
    with pytest.raises(InvalidArgument, match="callback"):
        bench.timer.schedule(5, None)
    with pytest.raises(InvalidArgument, match="period_ms must be at least 1, not 0"):
        build.RecurringTask(0, int)
    with pytest.raises(InvalidArgument, match="tick_ms must be at least 1, not 0"):
        build.SystemTimer(tick_ms=0)
    with pytest.raises(InvalidArgument, match="wheel_size must be at least 2, not 1"):
        build.SystemTimer(wheel_size=1)
    with pytest.raises(InvalidArgument, match="timeout_ms must be at least 0, not -1"):
        bench.timer.advance_clock(-1)
    with pytest.raises(InvalidType, match="timeout_ms"):
        bench.timer.advance_clock("1")
    with pytest.raises(InvalidType, match="wheel_size must be an int, not str: 'x'"):
        build.SystemTimer(wheel_size="x")


def test_what_a_task_and_a_timer_were_made_with_is_read_only(bench: Bench) -> None:
    task = bench.build.RecurringTask(5, int)
    for thing, names in ((task, ("delay_ms", "period_ms")), (bench.timer, ("tick_ms", "wheel_size", "clock"))):
        for name in names:
            with pytest.raises(AttributeError):
                setattr(thing, name, 7)


def test_a_wheel_has_at_most_a_million_buckets_a_level(build: Build) -> None:
    with pytest.raises(InvalidArgument, match=f"wheel_size must be at most 1048576, not {2**20 + 1}"):
        build.SystemTimer(wheel_size=2**20 + 1)


def test_add_after_close_raises_and_close_twice_is_fine(bench: Bench) -> None:
    waiting = bench.add(5)
    bench.timer.close()
    bench.timer.close()
    with pytest.raises(Closed):
        bench.add(1)
    assert not waiting.is_pending
    assert not waiting.cancel()
    bench.clock.advance(10)
    assert not bench.timer.advance_clock(0)
    assert bench.log == []
    assert bench.timer.size == 0


def test_a_recurring_task_ends_with_the_timer(bench: Bench) -> None:
    runs: list[int] = []

    def run() -> None:
        runs.append(1)
        bench.timer.close()

    bench.timer.add(bench.build.RecurringTask(5, run))
    bench.clock.advance(5)
    bench.timer.advance_clock(0)
    assert runs == [1]
    assert bench.errors == []


def test_statistics_tell_levels_cascades_and_lateness(bench: Bench) -> None:
    bench.add(5)
    bench.add(30)
    bench.add(31)
    bench.add(500).cancel()
    before = bench.timer.statistics()
    assert [(level.tick_ms, level.buckets, level.tasks) for level in before.levels] == [
        (1, 1, 1),
        (20, 1, 2),
        (400, 0, 0),
    ]
    bench.clock.advance(5)
    bench.timer.advance_clock(0)
    bench.clock.advance(28)  # 33: the others are 3 and 2 ms late
    bench.timer.advance_clock(0)
    after = bench.timer.statistics()
    assert (after.pending, after.fired, after.cancelled, after.cascades) == (0, 3, 1, 2)
    assert after.lateness[:3] == (1, 0, 2)
    assert after.lateness_at_most_ms(0.3) == 0
    assert after.lateness_at_most_ms(1.0) == 3


def test_by_default_tasks_run_on_one_thread_of_the_timers_own(build: Build) -> None:
    threads: list[str] = []
    done = threading.Event()
    with build.SystemTimer("mail") as timer:
        timer.schedule(0, lambda: threads.append(threading.current_thread().name))
        timer.schedule(2, lambda: threads.append(threading.current_thread().name))
        timer.schedule(3, done.set)
        while not done.is_set():
            timer.advance_clock(200)
    assert threads == ["dwell-mail", "dwell-mail"]


def test_a_task_on_the_own_thread_that_exits_does_not_end_the_thread(build: Build) -> None:
    errors: list[BaseException] = []
    done = threading.Event()

    def leave() -> None:
        raise SystemExit

    with build.SystemTimer(on_error=lambda error, source: errors.append(error)) as timer:
        timer.schedule(0, leave)
        timer.schedule(0, done.set)
        assert done.wait(10)
    assert [type(error) for error in errors] == [SystemExit]


def test_on_the_system_clock_it_fires_by_itself(build: Build) -> None:
    ran = threading.Event()
    with build.SystemTimer("alone") as timer:
        timer.schedule(5, ran.set)
        assert ran.wait(10)
        names = {thread.name for thread in threading.enumerate()}
        assert {"dwell-alone", "dwell-reaper-alone"} <= names
    assert not any(thread.name.endswith("-alone") for thread in threading.enumerate())


def test_no_thread_is_started_before_it_is_needed_or_on_a_manual_clock(build: Build) -> None:
    before = threading.active_count()
    with build.SystemTimer(), build.SystemTimer(clock=ManualClock()) as manual:
        manual.schedule(5, int)
        with build.SystemTimer(executor=InlineExecutor()) as inline, build.SystemTimer(reaper=False) as driven:
            inline.schedule(60_000, int)
            driven.schedule(60_000, int)
            assert threading.active_count() == before


def test_an_earlier_task_wakes_the_reaper(build: Build) -> None:
    ran = threading.Event()
    with build.SystemTimer() as timer:
        timer.schedule(3_600_000, int)
        timer.schedule(1, ran.set)
        assert ran.wait(10)


def test_the_reaper_stands_by_while_somebody_else_advances_and_takes_over_afterwards(build: Build) -> None:
    ran = [threading.Event() for _ in range(2)]
    with build.SystemTimer() as timer:
        timer.schedule(2, ran[0].set)
        while not ran[0].is_set():
            timer.advance_clock(200)
        timer.schedule(2, ran[1].set)
        assert ran[1].wait(10)


def test_a_clock_that_fails_now_and_then_does_not_end_the_reaper(build: Build) -> None:
    class Failing:
        calls = 0

        def now_ms(self) -> int:
            self.calls += 1
            if self.calls % 3 == 0:
                raise OSError("no time")
            return SystemClock().now_ms()

    errors: list[BaseException] = []
    ran = threading.Event()
    with build.SystemTimer(clock=Failing(), reaper=True, on_error=lambda error, source: errors.append(error)) as timer:
        for _ in range(3):
            with suppress(OSError):
                timer.schedule(20, ran.set)
        assert ran.wait(10)
    assert errors
    assert {type(error) for error in errors} == {OSError}


def test_the_next_expiration_is_known_and_not_after_the_first_deadline(bench: Bench) -> None:
    assert bench.timer.next_expiration_ms is None
    bench.add(450)
    assert bench.timer.next_expiration_ms == 400
    bench.add(7)
    assert bench.timer.next_expiration_ms == 7
    bench.advance(7)
    assert bench.timer.next_expiration_ms == 400
    bench.advance(443)
    assert bench.timer.next_expiration_ms is None


def test_tasks_run_on_the_executor_given(build: Build) -> None:
    done = threading.Event()
    names: list[str] = []
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as pool, build.SystemTimer(executor=pool) as timer:
        timer.schedule(1, lambda: names.append(threading.current_thread().name))
        timer.schedule(2, done.set)
        while not done.is_set():
            timer.advance_clock(200)
    assert names
    assert names[0].startswith("mine")


def test_an_executor_that_refuses_is_reported(build: Build) -> None:
    errors: list[BaseException] = []
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    timer = build.SystemTimer(executor=pool, on_error=lambda error, source: errors.append(error))
    timer.schedule(0, int)
    assert len(errors) == 1


def test_an_earlier_task_wakes_the_thread_that_waits_for_a_later_one(build: Build) -> None:
    with build.SystemTimer(executor=InlineExecutor()) as timer:
        ran = threading.Event()
        timer.schedule(3_600_000, int)

        def advance() -> None:
            while not ran.is_set():
                timer.advance_clock(600_000)

        reaper = threading.Thread(target=advance)
        reaper.start()
        timer.schedule(1, ran.set)
        assert ran.wait(10)
        reaper.join(10)
        assert not reaper.is_alive()


def test_close_wakes_the_thread_that_waits(build: Build) -> None:
    timer = build.SystemTimer()
    results: list[bool] = []
    reaper = threading.Thread(target=lambda: results.append(timer.advance_clock(600_000)))
    reaper.start()
    timer.close()
    reaper.join(10)
    assert results == [False]


def test_a_task_may_close_its_own_timer(build: Build) -> None:
    timer = build.SystemTimer()
    closed = threading.Event()

    def close() -> None:
        timer.close()
        closed.set()

    timer.schedule(0, close)
    assert closed.wait(10)


def test_the_timer_and_the_system_clock_read_one_clock(build: Build) -> None:
    timer = build.SystemTimer(executor=InlineExecutor())
    for _ in range(200):
        before_ms = SystemClock().end_ms()
        deadline_ms = timer.schedule(60_000, int).deadline_ms
        assert before_ms <= deadline_ms - 60_000 <= SystemClock().end_ms()


def test_on_the_system_clock_a_delay_is_never_short_by_a_part_of_a_millisecond(build: Build) -> None:
    waited_ns: list[int] = []
    with build.SystemTimer(executor=InlineExecutor()) as timer:
        for _ in range(40):
            start_ns = monotonic_ns()
            timer.schedule(2, lambda start_ns=start_ns: waited_ns.append(monotonic_ns() - start_ns))
            while timer.size:
                timer.advance_clock(200)
    assert min(waited_ns) >= 2_000_000


class Token:
    """Something whose end can be seen."""


def test_what_ran_or_was_cancelled_is_let_go(bench: Bench) -> None:
    token = Token()
    seen = weakref.ref(token)
    bench.timer.schedule(5, lambda token=token: None)
    cancelled = bench.timer.schedule(50, lambda token=token: None)
    del token
    bench.advance(5)
    cancelled.cancel()
    assert seen() is not None
    del cancelled
    assert seen() is None


def test_a_closed_timer_and_a_dropped_timer_let_go_of_what_waits(build: Build) -> None:
    for end in ("close", "drop"):
        bench = Bench(build)
        token = Token()
        seen = weakref.ref(token)
        bench.timer.schedule(5, lambda token=token: None)
        del token
        if end == "close":
            bench.timer.close()
        else:
            del bench
            gc.collect()
        assert seen() is None


def test_a_cycle_through_a_task_that_no_longer_waits_is_collected(bench: Bench) -> None:
    class Owner:
        def __init__(self) -> None:
            self.task = bench.build.TimerTask(5, self.run)

        def run(self) -> None: ...

    ran, cancelled, never = Owner(), Owner(), Owner()
    seen = [weakref.ref(owner) for owner in (ran, cancelled, never)]
    bench.timer.add(ran.task)
    bench.timer.add(cancelled.task)
    cancelled.task.cancel()
    bench.advance(5)
    del ran, cancelled, never
    gc.collect()
    assert [owner() for owner in seen] == [None, None, None]


def test_a_timer_whose_init_never_ran_takes_no_tasks(build: Build) -> None:
    class Forgetful(build.SystemTimer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None: ...

    timer = Forgetful()
    adds: list[Callable[[], object]] = [
        lambda: timer.add(build.TimerTask(5, list)),
        lambda: timer.schedule(5, list),
        lambda: timer.add_many([5]),
    ]
    for add in adds:
        with pytest.raises((InvalidArgument, AttributeError)):
            add()


def test_a_second_init_does_not_mix_up_the_wheels(build: Build) -> None:
    timer = build.SystemTimer(clock=ManualClock(), executor=InlineExecutor(), wheel_size=2)
    with suppress(InvalidArgument):
        timer.__init__(clock=ManualClock(), executor=InlineExecutor(), wheel_size=1000)
    for delay_ms in range(1, 2000):
        timer.schedule(delay_ms, list)
    timer._check()


def test_a_recurring_task_without_its_period_is_an_error(build: Build) -> None:
    class Forgetful(build.RecurringTask):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            build.TimerTask.__init__(self, 1, list)

    clock = ManualClock()
    errors: list[BaseException] = []
    timer = build.SystemTimer(clock=clock, executor=InlineExecutor(), on_error=lambda error, _: errors.append(error))
    timer.add(Forgetful())
    clock.advance(1)
    timer.advance_clock(0)
    assert len(errors) == 1


def test_a_timer_that_is_out_of_memory_counts_right(build: Build) -> None:
    testcapi = pytest.importorskip("_testcapi", reason="this Python comes without its own test module")
    timer = build.SystemTimer(clock=ManualClock(), executor=InlineExecutor(), wheel_size=1000)
    task = build.TimerTask(2**40, list)
    failures = 0
    for allocation in range(20):
        testcapi.set_nomemory(allocation, allocation + 1)
        try:
            timer.add(task)
        except MemoryError:
            failures += 1
        finally:
            testcapi.remove_mem_hooks()
        timer._check()
        assert timer.size == task.is_pending
    assert failures
