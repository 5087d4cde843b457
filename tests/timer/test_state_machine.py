"""Random lives of a timer, on both builds, against the model; all invariants after every step."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dwell.testing import InlineExecutor, ManualClock
from tests.builds import Build
from tests.timer.model import FOREVER_MS, TimerModel

TODAY_MS = 1_795_000_000_000
NAMES = st.integers(0, 15)
DELAYS = st.one_of(
    st.integers(-2, 40),
    st.integers(0, 10_000),
    st.sampled_from([19, 20, 21, 399, 400, 401, 7_999, 8_000, 8_001, 3_600_000, 10**15, FOREVER_MS - 1, FOREVER_MS]),
)


class TimerMachine(RuleBasedStateMachine):
    def __init__(self, build: Build) -> None:
        super().__init__()
        self.build = build

    @initialize(
        tick_ms=st.sampled_from([1, 1, 2, 3, 7, 10, 1000]),
        wheel_size=st.sampled_from([2, 3, 20, 20, 64, 512]),
        start_ms=st.sampled_from([0, 0, 17, TODAY_MS, -12_345, FOREVER_MS - 5_000]),
    )
    def start(self, tick_ms: int, wheel_size: int, start_ms: int) -> None:
        self.clock = ManualClock(start_ms)
        self.timer = self.build.SystemTimer(
            tick_ms=tick_ms, wheel_size=wheel_size, clock=self.clock, executor=InlineExecutor()
        )
        self.model = TimerModel(tick_ms, start_ms)
        self.tasks: dict[int, Any] = {}
        self.handles: dict[int, int] = {}
        self.ran: list[int] = []

    def expect(self, names: list[int]) -> None:
        assert self.ran == names
        self.ran.clear()

    @rule(name=NAMES, delay_ms=DELAYS)
    def add_new(self, name: int, delay_ms: int) -> None:
        if name in self.tasks:
            self.model.cancelled += self.model.waiting.pop(name, None) is not None
            self.tasks[name].cancel()
        self.tasks[name] = self.build.TimerTask(delay_ms, lambda: self.ran.append(name))
        self.timer.add(self.tasks[name])
        self.expect(self.model.add(name, delay_ms))

    @rule(name=NAMES)
    def add_again(self, name: int) -> None:
        if name in self.tasks:
            self.timer.add(self.tasks[name])
            self.expect(self.model.add(name, self.tasks[name].delay_ms))

    @rule(name=NAMES, delay_ms=DELAYS)
    def reschedule(self, name: int, delay_ms: int) -> None:
        if name in self.tasks:
            self.timer.reschedule(self.tasks[name], delay_ms)
            assert self.tasks[name].delay_ms == delay_ms
            self.expect(self.model.add(name, delay_ms))

    @rule(name=NAMES)
    def cancel(self, name: int) -> None:
        if name in self.tasks:
            assert self.tasks[name].cancel() == self.model.cancel(name)
            assert self.tasks[name].is_cancelled
            assert not self.tasks[name].is_pending

    @rule(delays_ms=st.lists(DELAYS, max_size=8))
    def add_many(self, delays_ms: list[int]) -> None:
        first = 1000 + len(self.handles)
        tokens = list(range(first, first + len(delays_ms)))
        handles = self.timer.add_many(array("q", delays_ms), array("q", tokens))
        self.handles.update(zip(tokens, handles, strict=True))
        at_once = [name for t, d in zip(tokens, delays_ms, strict=True) for name in self.model.add(t, d)]
        assert list(self.timer.advance_many(0)) == at_once

    @rule(data=st.data())
    def cancel_many(self, data: st.DataObject) -> None:
        if self.handles:
            tokens = data.draw(st.lists(st.sampled_from(sorted(self.handles)), max_size=5))
            cancelled = sum([self.model.cancel(token) for token in tokens])
            assert self.timer.cancel_many(array("q", [self.handles[token] for token in tokens])) == cancelled

    @rule(ms=st.one_of(st.integers(0, 50), st.integers(0, 20_000), st.sampled_from([3_600_000, 8_640_000_000, 10**16])))
    def advance(self, ms: int) -> None:
        ms = min(ms, FOREVER_MS - self.clock.now_ms())
        self.clock.advance(ms)
        tokens = list(self.timer.advance_many(0))
        for _, names in self.model.advance(ms):
            expected_tokens = {name for name in names if name >= 1000}
            expected_tasks = names - expected_tokens
            assert {*self.ran[: len(expected_tasks)]} == expected_tasks
            assert {*tokens[: len(expected_tokens)]} == expected_tokens
            del self.ran[: len(expected_tasks)], tokens[: len(expected_tokens)]
        assert self.ran == tokens == []

    @invariant()
    def all_holds(self) -> None:
        if not hasattr(self, "timer"):
            return
        self.timer._check()
        statistics = self.timer.statistics()
        assert self.timer.size == statistics.pending == len(self.model.waiting)
        assert sum(level.tasks for level in statistics.levels) == statistics.pending
        assert statistics.fired == self.model.fired == sum(statistics.lateness)
        assert statistics.cancelled == self.model.cancelled
        for name, task in self.tasks.items():
            assert task.is_pending == (name in self.model.waiting)
            assert task.deadline_ms == self.model.waiting.get(name)


SETTINGS = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_random_lives_of_a_timer(build: Build) -> None:
    run_state_machine_as_test(lambda: TimerMachine(build), settings=SETTINGS)  # type: ignore[arg-type]
