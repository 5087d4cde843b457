"""An operation by itself: completed once, under its lock, by whoever comes first."""

from __future__ import annotations

import threading

import pytest

from dwell.errors import InvalidArgument, InvalidType
from dwell.purgatory import Purgatory
from dwell.testing import ManualClock
from tests.builds import Build
from tests.purgatory.operation import probe_class


def test_force_complete_succeeds_once(build: Build) -> None:
    operation = probe_class(build)()
    assert not operation.is_completed
    assert operation.force_complete() is True
    assert operation.is_completed
    assert operation.force_complete() is False
    assert operation.log == ["complete"]


def test_the_timer_is_cancelled_before_on_complete_runs(build: Build, purgatory: Purgatory) -> None:
    seen: list[tuple[bool, bool]] = []
    operation = probe_class(build)()
    operation.then = lambda: seen.append((operation.is_pending, operation.is_completed))
    purgatory.try_complete_else_watch(operation, ["k"])
    assert operation.is_pending
    operation.force_complete()
    assert seen == [(False, True)]


def test_expiry_completes_first_and_then_expires(build: Build) -> None:
    operation = probe_class(build)()
    operation.run()
    assert operation.log == ["complete", "expire"]
    operation.run()
    assert operation.log == ["complete", "expire"]


def test_an_operation_completed_before_its_time_does_not_expire(build: Build) -> None:
    operation = probe_class(build)()
    operation.force_complete()
    operation.run()
    assert operation.log == ["complete"]


def test_safe_try_complete_tries_unless_completed(build: Build) -> None:
    operation = probe_class(build)()
    assert operation.safe_try_complete() is False
    operation.ready = True
    assert operation.safe_try_complete() is True
    assert operation.safe_try_complete() is False
    assert operation.tries == 2


def test_safe_try_complete_waits_for_the_lock_instead_of_giving_up(build: Build) -> None:
    """A try-lock would lose a completion that comes true while another thread is just failing its try."""
    inside, go = threading.Event(), threading.Event()

    class Slow(build.DelayedOperation):  # type: ignore[name-defined,misc]
        ready = False
        completed_by: str | None = None

        def try_complete(self) -> bool:
            ready = self.ready
            if not inside.is_set():
                inside.set()
                go.wait(10)
            if not ready:
                return False
            self.completed_by = threading.current_thread().name
            return bool(self.force_complete())

    operation = Slow(1000)
    first = threading.Thread(target=operation.safe_try_complete)
    first.start()
    inside.wait(10)
    operation.ready = True
    second = threading.Thread(target=operation.safe_try_complete, name="second")
    second.start()
    go.set()
    first.join(10)
    second.join(10)
    assert operation.is_completed
    assert operation.completed_by == "second"


def test_on_complete_waits_for_a_try_under_way_in_another_thread(build: Build) -> None:
    inside, go = threading.Event(), threading.Event()
    log = []

    class Slow(build.DelayedOperation):  # type: ignore[name-defined,misc]
        def try_complete(self) -> bool:
            inside.set()
            go.wait(10)
            log.append("tried")
            return False

        def on_complete(self) -> None:
            log.append("completed")

    operation = Slow(1000)
    trying = threading.Thread(target=operation.safe_try_complete)
    forcing = threading.Thread(target=operation.force_complete)
    trying.start()
    inside.wait(10)
    forcing.start()
    forcing.join(0.05)
    assert forcing.is_alive()
    go.set()
    trying.join(10)
    forcing.join(10)
    assert log == ["tried", "completed"]


def test_a_given_lock_is_held_during_try_and_on_complete_but_not_during_on_expiration(build: Build) -> None:
    lock = threading.Lock()
    held = []

    class Locked(probe_class(build)):  # type: ignore[misc]
        def try_complete(self) -> bool:
            held.append(lock.locked())
            return bool(super().try_complete())

        def on_complete(self) -> None:
            held.append(lock.locked())

        def on_expiration(self) -> None:
            held.append(lock.locked())

    operation = Locked(1000, lock=lock)
    operation.safe_try_complete()
    operation.ready = True
    operation.safe_try_complete()
    assert held == [True, True, True]
    assert not lock.locked()
    held.clear()
    Locked(1000, lock=lock).run()
    assert held == [True, False]


def test_an_operation_has_to_say_what_completes_it(build: Build) -> None:
    class Forgotten(build.DelayedOperation):  # type: ignore[name-defined,misc]
        pass

    with pytest.raises(InvalidArgument, match=r"Forgotten must override try_complete"):
        Forgotten(1000)


def test_a_delay_has_to_be_whole_milliseconds(build: Build) -> None:
    with pytest.raises(InvalidType, match="delay_ms"):
        probe_class(build)(delay_ms=1.5)


def test_slots_in_a_subclass_leave_no_dictionary(build: Build) -> None:
    class Slotted(build.DelayedOperation):  # type: ignore[name-defined,misc]
        __slots__ = ("offset",)

        def try_complete(self) -> bool:
            return False

    operation = Slotted(1000)
    operation.offset = 5
    assert not hasattr(operation, "__dict__")


def test_an_operation_says_what_it_is(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)(250)
    assert repr(operation) == "<Probe delay_ms=250 idle>"
    purgatory.try_complete_else_watch(operation, ["k"])
    assert repr(operation) == "<Probe delay_ms=250 waiting>"
    operation.force_complete()
    assert repr(operation) == "<Probe delay_ms=250 completed>"


def test_an_exception_outside_a_purgatory_is_logged(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    operation = probe_class(build)(then=lambda: 1 / 0)
    assert operation.force_complete() is True
    assert "ZeroDivisionError" in caplog.text


def test_cancelling_an_operation_takes_it_out_whoever_is_asked(
    build: Build, purgatory: Purgatory, clock: ManualClock
) -> None:
    for cancel in (lambda operation: operation.cancel(), purgatory.cancel):
        operation = probe_class(build)(50)
        assert cancel(operation) is False, "it does not wait"
        assert not operation.is_cancelled
        purgatory.try_complete_else_watch(operation, ["a", "b"])
        assert cancel(operation) is True
        assert (operation.is_cancelled, operation.is_pending, cancel(operation)) == (True, False, False)
        operation.ready = True
        assert purgatory.check_and_complete("a") == purgatory.check_and_complete("b") == 0
        clock.advance(100)
        purgatory.advance()
        assert operation.log == []
    assert purgatory.statistics().cancelled == 2


def test_a_completed_operation_is_not_cancelled(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)()
    purgatory.try_complete_else_watch(operation, ["k"])
    operation.force_complete()
    assert not operation.is_cancelled
    assert operation.cancel() is False
    assert purgatory.statistics().cancelled == 0


def test_an_operation_that_waits_in_a_timer_alone_can_be_cancelled(build: Build, clock: ManualClock) -> None:
    with build.SystemTimer(clock=clock) as timer:
        operation = probe_class(build)(50)
        timer.add(operation)
        assert operation.cancel() is True
        assert timer.size == 0


def test_a_clock_that_fails_keeps_no_operation_from_its_callbacks(build: Build) -> None:
    class Broken:
        fails = False

        def now_ms(self) -> int:
            if self.fails:
                raise OSError("no clock")
            return 0

    clock, errors = Broken(), []
    with build.Purgatory("broken", clock=clock, reaper=False, on_error=lambda *args: errors.append(args)) as purgatory:
        operation = probe_class(build)()
        purgatory.try_complete_else_watch(operation, ["k"])
        clock.fails = operation.ready = True
        assert purgatory.check_and_complete("k") == 1
        assert operation.log == ["complete"]
        clock.fails = False
    assert [(type(error), source) for error, source in errors] == [(OSError, clock)]
