"""Random lives of a purgatory, on both builds, against the model; all invariants after every step."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dwell.testing import ManualClock
from tests.builds import Build
from tests.purgatory.model import ModelOperation, PurgatoryModel

NUMBERS = st.integers(0, 30)
KEYS = st.integers(0, 5)
THEN = st.one_of(st.none(), st.tuples(st.just("check"), KEYS), st.tuples(st.just("force"), NUMBERS))


class PurgatoryMachine(RuleBasedStateMachine):
    def __init__(self, build: Build) -> None:
        super().__init__()
        self.build = build

    @initialize(purge_interval=st.sampled_from([0, 1, 3, 1000]))
    def start(self, purge_interval: int) -> None:
        machine = self
        self.clock = ManualClock()
        self.errors: list[Any] = []
        self.purgatory = self.build.Purgatory(
            "random",
            clock=self.clock,
            reaper=False,
            purge_interval=purge_interval,
            on_error=lambda *args: self.errors.append(args),
        )
        self.model = PurgatoryModel(purge_interval)
        self.operations: dict[int, Any] = {}
        self.log: list[tuple[str, int]] = []

        class Operation(self.build.DelayedOperation):  # type: ignore[name-defined,misc]
            def __init__(self, number: int, delay_ms: int, then: tuple[str, int] | None) -> None:
                super().__init__(delay_ms)
                self.number = number
                self.then = then
                self.ready = False

            def try_complete(self) -> bool:
                return self.ready and self.force_complete()

            def on_complete(self) -> None:
                machine.log.append(("complete", self.number))
                if self.then is None:
                    return
                what, which = self.then
                if what == "check":
                    assert machine.purgatory.check_and_complete(which) == 0
                elif which in machine.operations:
                    machine.operations[which].force_complete()

            def on_expiration(self) -> None:
                machine.log.append(("expire", self.number))

        self.operation_class = Operation

    @rule(
        number=NUMBERS,
        keys=st.lists(KEYS, min_size=1, max_size=6),
        delay_ms=st.integers(-1, 500),
        ready=st.booleans(),
        then=THEN,
    )
    def watch(self, number: int, keys: list[int], delay_ms: int, ready: bool, then: tuple[str, int] | None) -> None:
        if number in self.operations:
            return
        # Equal deadlines have no promised order, so none are.
        taken = {operation.deadline_ms for operation in self.model.operations.values()}
        while delay_ms > 0 and self.clock.now_ms() + delay_ms in taken:
            delay_ms += 1
        operation = self.operation_class(number, delay_ms, then)
        operation.ready = ready
        self.operations[number] = operation
        expected = self.model.watch(number, ModelOperation(then, ready), keys, delay_ms)
        assert self.purgatory.try_complete_else_watch(operation, keys) is expected

    @rule(number=NUMBERS)
    def make_ready(self, number: int) -> None:
        if number in self.operations:
            self.operations[number].ready = self.model.operations[number].ready = True

    @rule(key=KEYS)
    def check(self, key: int) -> None:
        assert self.purgatory.check_and_complete(key) == self.model.check(key)

    @rule(number=NUMBERS)
    def force(self, number: int) -> None:
        if number in self.operations:
            assert self.operations[number].force_complete() is self.model.complete(number)

    @rule(key=KEYS)
    def cancel_for_key(self, key: int) -> None:
        taken = [operation.number for operation in self.purgatory.cancel_for_key(key)]
        assert taken == self.model.cancel_for_key(key)

    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        if number in self.operations:
            assert self.purgatory.cancel(self.operations[number]) is self.model.cancel(number)

    @rule(ms=st.integers(0, 300))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        self.purgatory.advance()
        self.model.advance(ms)

    @rule()
    def purge(self) -> None:
        assert self.purgatory.purge() == self.model.purge()

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "model"):
            return
        self.purgatory._check()
        assert self.errors == []
        assert self.log == self.model.log
        assert self.purgatory.watched == self.model.watched
        assert self.purgatory.num_delayed == self.model.delayed
        for number, operation in self.operations.items():
            assert operation.is_completed == self.model.operations[number].completed
        statistics = self.purgatory.statistics()
        assert statistics.completed == self.model.completed
        assert statistics.expired == self.model.expired
        assert statistics.cancelled == self.model.cancelled
        assert statistics.purged == self.model.purged
        assert sum(statistics.waits) == statistics.completed + statistics.expired
        assert sum(statistics.lateness) == statistics.expired

    def teardown(self) -> None:
        if hasattr(self, "purgatory"):
            self.purgatory.close()


SETTINGS = settings(max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))


def test_random_lives_of_a_purgatory(build: Build) -> None:
    run_state_machine_as_test(lambda: PurgatoryMachine(build), settings=SETTINGS)  # type: ignore[arg-type]
