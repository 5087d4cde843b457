"""One operation's exception harms no other, and what a callback sets off is queued, not recursed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dwell.purgatory import Purgatory
from dwell.testing import ManualClock
from tests.builds import Build
from tests.purgatory.operation import probe_class

Errors = list[tuple[BaseException, object]]


def fail() -> None:
    raise ZeroDivisionError


# Exceptions


def test_an_exception_in_on_complete_stops_nobody_else_on_the_key(
    build: Build, purgatory: Purgatory, errors: Errors
) -> None:
    operations = [probe_class(build)(then=fail if number == 1 else None) for number in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
        operation.ready = True
    assert purgatory.check_and_complete("k") == 3
    assert [(type(error), source) for error, source in errors] == [(ZeroDivisionError, operations[1])]
    assert purgatory.watched == 0


def test_an_exception_in_try_complete_leaves_the_operation_waiting(
    build: Build, purgatory: Purgatory, errors: Errors, clock: ManualClock
) -> None:
    class Broken(probe_class(build)):  # type: ignore[misc]
        def try_complete(self) -> bool:
            fail()
            return False

    broken, sound = Broken(50), probe_class(build)()
    assert purgatory.try_complete_else_watch(broken, ["k"]) is False
    purgatory.try_complete_else_watch(sound, ["k"])
    sound.ready = True
    assert purgatory.check_and_complete("k") == 1
    assert len(errors) == 3
    clock.advance(50)
    purgatory.advance()
    assert broken.log == ["complete", "expire"]


def test_an_exception_at_expiry_stops_no_other_expiry(
    build: Build, purgatory: Purgatory, errors: Errors, clock: ManualClock
) -> None:
    class Broken(probe_class(build)):  # type: ignore[misc]
        def on_expiration(self) -> None:
            super().on_expiration()
            fail()

    operations = [Broken(50, then=fail), probe_class(build)(50)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
    clock.advance(50)
    purgatory.advance()
    assert [operation.log for operation in operations] == [["complete", "expire"]] * 2
    assert [source for _, source in errors] == [operations[0]] * 2


def test_a_handler_that_fails_harms_nobody(build: Build, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    def broken_handler(_error: BaseException, _source: object) -> None:
        raise LookupError("handler")

    with build.Purgatory("p", clock=clock, reaper=False, on_error=broken_handler) as purgatory:
        operation = probe_class(build)(then=fail)
        operation.ready = True
        assert purgatory.try_complete_else_watch(operation, ["k"]) is True
    assert "LookupError" in caplog.text


def test_an_interrupt_passes_through_and_leaves_everything_in_order(build: Build, purgatory: Purgatory) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    first, second = probe_class(build)(then=interrupt), probe_class(build)()
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["k"])
        operation.ready = True
    with pytest.raises(KeyboardInterrupt):
        purgatory.check_and_complete("k")
    assert first.is_completed
    assert purgatory.check_and_complete("k") == 1
    threading.Thread(target=first.safe_try_complete).start()  # its lock is free
    assert purgatory.watched == 0


# Chains


@pytest.mark.parametrize("length", [10_000])
def test_operations_that_each_complete_the_next_do_not_grow_the_stack(
    build: Build, purgatory: Purgatory, length: int
) -> None:
    done: list[int] = []

    class Link(build.DelayedOperation):  # type: ignore[name-defined,misc]
        def __init__(self, number: int) -> None:
            super().__init__(60_000)
            self.number = number

        def try_complete(self) -> bool:
            return len(done) == self.number and self.force_complete()

        def on_complete(self) -> None:
            done.append(self.number)
            assert purgatory.check_and_complete(self.number + 1) == 0

    for number in range(1, length):
        purgatory.try_complete_else_watch(Link(number), [number])
    assert purgatory.try_complete_else_watch(Link(0), [0]) is True
    assert done == list(range(length))
    assert purgatory.watched == purgatory.num_delayed == 0


def test_a_chain_by_force_does_not_grow_the_stack_either(build: Build) -> None:
    order: list[int] = []
    probes = [probe_class(build)() for _ in range(10_000)]
    for number, (operation, following) in enumerate(zip(probes, [*probes[1:], None], strict=True)):

        def then(number: int = number, following: Any = following) -> None:
            order.append(number)
            if following is not None:
                assert following.force_complete() is True
                assert following.is_completed
                assert following.log == [], "its callback waits for this one to return"

        operation.then = then
    probes[0].force_complete()
    assert order == list(range(10_000))


def test_a_chain_of_operations_made_on_the_way_does_not_grow_the_stack_either(
    build: Build, purgatory: Purgatory
) -> None:
    order: list[int] = []

    def start(number: int) -> None:
        operation = probe_class(build)(then=lambda: follow(number))
        operation.ready = True
        assert purgatory.try_complete_else_watch(operation, ["k"]) is True

    def follow(number: int) -> None:
        order.append(number)
        if number < 10_000:
            start(number + 1)

    start(0)
    assert order == list(range(10_001))


def test_a_chain_of_expiries_does_not_grow_the_stack_either(build: Build, purgatory: Purgatory) -> None:
    order: list[int] = []

    class Link(build.DelayedOperation):  # type: ignore[name-defined,misc]
        def __init__(self, number: int) -> None:
            super().__init__(0)
            self.number = number

        def try_complete(self) -> bool:
            return False

        def on_expiration(self) -> None:
            order.append(self.number)
            if self.number < 5_000:
                purgatory.try_complete_else_watch(Link(self.number + 1), ["k"])

    purgatory.try_complete_else_watch(Link(0), ["k"])
    assert order == list(range(5_001))


def test_what_a_callback_sets_off_runs_in_order_after_it_has_returned(build: Build, purgatory: Purgatory) -> None:
    order: list[str] = []

    def first() -> None:
        assert purgatory.check_and_complete("b") == 0
        assert third.force_complete() is True
        order.append("first")

    one = probe_class(build)(then=first)
    second = probe_class(build)(then=lambda: order.append("second"))
    third = probe_class(build)(then=lambda: order.append("third"))
    purgatory.try_complete_else_watch(one, ["a"])
    purgatory.try_complete_else_watch(second, ["b"])
    purgatory.try_complete_else_watch(third, ["c"])
    one.ready = second.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert order == ["first", "second", "third"]


def test_what_an_interrupted_chain_left_is_done_by_the_threads_next_completion(
    build: Build, purgatory: Purgatory
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    left, last = probe_class(build)(), probe_class(build)()
    broken = probe_class(build)(then=interrupt)

    def set_off() -> None:
        broken.force_complete()
        left.force_complete()

    first = probe_class(build)(then=set_off)
    with pytest.raises(KeyboardInterrupt):
        first.force_complete()
    assert left.is_completed
    last.force_complete()
    assert left.log == last.log == ["complete"]


def test_two_chains_that_meet_do_not_wait_for_each_other(build: Build) -> None:
    """Each holds its own lock and completes the other's operation: nested, that would be a deadlock."""
    for _ in range(50):
        meet = threading.Barrier(2)

        def cross(other: list[Any], meet: threading.Barrier = meet) -> None:
            meet.wait(10)
            other[0].force_complete()

        left_box: list[Any] = []
        right_box: list[Any] = []
        left = probe_class(build)(then=lambda box=right_box: cross(box))
        right = probe_class(build)(then=lambda box=left_box: cross(box))
        left_box.append(left)
        right_box.append(right)
        threads = [threading.Thread(target=operation.force_complete) for operation in (left, right)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert left.log == right.log == ["complete"]
