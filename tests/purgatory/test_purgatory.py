"""A purgatory as Kafka has it: watching, checking, expiring, purging, cancelling, counting."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from dwell.errors import Closed, InvalidArgument, InvalidType
from dwell.purgatory import Purgatory
from dwell.testing import ManualClock
from dwell.timer import InlineExecutor
from tests.builds import Build
from tests.purgatory.operation import probe_class

# Watching


def test_an_operation_that_is_ready_completes_at_once_and_is_not_watched(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)()
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["a", "b"]) is True
    assert operation.tries == 1
    assert operation.log == ["complete"]
    assert purgatory.watched == purgatory.num_delayed == 0


def test_an_operation_that_is_not_ready_is_tried_twice_whatever_the_number_of_keys(
    build: Build, purgatory: Purgatory
) -> None:
    operation = probe_class(build)()
    assert purgatory.try_complete_else_watch(operation, list(range(20))) is False
    assert operation.tries == 2
    assert purgatory.watched == 20
    assert purgatory.num_delayed == 1


def test_what_comes_true_while_the_keys_are_being_watched_is_seen_by_the_second_try(
    build: Build, purgatory: Purgatory
) -> None:
    class Late(probe_class(build)):  # type: ignore[misc]
        def try_complete(self) -> bool:
            self.tries += 1
            return self.tries == 2 and bool(self.force_complete())

    operation = Late()
    assert purgatory.try_complete_else_watch(operation, ["a", "b"]) is True
    assert purgatory.num_delayed == 0


def test_what_is_completed_by_another_during_the_second_try_gets_no_timer(build: Build, purgatory: Purgatory) -> None:
    class Elsewhere(probe_class(build)):  # type: ignore[misc]
        def try_complete(self) -> bool:
            self.tries += 1
            if self.tries == 2:
                self.force_complete()
            return False

    operation = Elsewhere()
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert operation.log == ["complete"]
    assert purgatory.num_delayed == 0


def test_what_is_completed_while_its_timer_is_added_has_its_timer_cancelled(build: Build, clock: ManualClock) -> None:
    """The third check."""

    class Racing(build.SystemTimer):  # type: ignore[name-defined,misc]
        def add(self, task: Any) -> None:
            task.force_complete()
            super().add(task)

    timer = Racing(clock=clock)
    with build.Purgatory("race", timer=timer, reaper=False) as purgatory:
        operation = probe_class(build)()
        assert purgatory.try_complete_else_watch(operation, ["a"]) is False
        assert operation.is_completed
        assert timer.size == 0


def test_an_operation_that_completed_in_its_first_try_is_not_tried_again(build: Build, purgatory: Purgatory) -> None:
    class Modest(probe_class(build)):  # type: ignore[misc]
        def try_complete(self) -> bool:
            self.tries += 1
            self.force_complete()
            return False

    operation = Modest()
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert (operation.tries, operation.log) == (1, ["complete"])
    assert purgatory.watched == purgatory.num_delayed == 0


def test_an_operation_that_completes_while_its_keys_are_being_watched_is_not_tried_again(
    build: Build, purgatory: Purgatory
) -> None:
    """A key's `__eq__` is user code: here it completes the operation, as another thread might at that moment."""
    operation = probe_class(build)()

    class Key:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            operation.force_complete()
            return self is other

    first, second = Key(1), Key(2)
    waiting = probe_class(build)()
    purgatory.try_complete_else_watch(waiting, [first])
    assert purgatory.try_complete_else_watch(operation, [second]) is False
    assert (operation.tries, operation.log) == (1, ["complete"])
    assert purgatory.num_delayed == 1


def test_an_operation_whose_key_fails_to_compare_is_left_nowhere(
    build: Build, purgatory: Purgatory, clock: ManualClock
) -> None:
    class Key:
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            raise LookupError("no comparison")

    waiting, operation = probe_class(build)(), probe_class(build)(100)
    reference = weakref.ref(operation)
    key = Key()
    purgatory.try_complete_else_watch(waiting, [key])
    purgatory.try_complete_else_watch(operation, ["before"])
    with pytest.raises(LookupError):
        purgatory.try_complete_else_watch(operation, ["a", Key(), "b"])
    assert purgatory.num_delayed == 1, "its clock stands too"
    operation.ready = True
    for name in ("before", "a", "b"):
        assert purgatory.check_and_complete(name) == 0
    assert purgatory.watched == 1
    assert operation.log == []
    del operation
    gc.collect()
    assert reference() is None


def test_a_key_may_use_the_purgatory_while_it_is_compared(build: Build, purgatory: Purgatory) -> None:
    """The shard's lock is held meanwhile: it must be re-entrant, and a list that came up meanwhile must not be lost."""
    nested: list[Any] = []

    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            if busy:
                busy.pop()
                nested.append(probe_class(build)())
                purgatory.try_complete_else_watch(nested[0], [Key("new")])
            return isinstance(other, Key) and self.name == other.name

    busy: list[bool] = []
    first, second = probe_class(build)(), probe_class(build)()
    purgatory.try_complete_else_watch(first, [Key("old")])
    busy.append(True)
    purgatory.try_complete_else_watch(second, [Key("new")])
    nested[0].ready = second.ready = True
    assert purgatory.check_and_complete(Key("new")) == 2


@pytest.mark.parametrize("when", ["watched", "clock started"])
def test_an_operation_that_is_cancelled_as_it_is_let_in_does_not_wait(
    build: Build, clock: ManualClock, when: str
) -> None:
    """As another thread might at that moment: while its keys are compared, or while its clock is being started."""

    class Key:
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            if when == "watched":
                operation.cancel()
            return self is other

    class Cancelling(build.SystemTimer):  # type: ignore[name-defined,misc]
        def add(self, task: Any) -> None:
            if task is operation and when == "clock started":
                task.cancel()
            super().add(task)

    with Cancelling(clock=clock, executor=InlineExecutor()) as timer:
        purgatory = build.Purgatory("race", timer=timer, reaper=False)
        other, operation = probe_class(build)(1000), probe_class(build)(1000)
        purgatory.try_complete_else_watch(other, [Key()])
        assert purgatory.try_complete_else_watch(operation, [Key(), "b"]) is False
        assert (operation.is_cancelled, timer.size) == (True, 1)
        operation.ready = True
        clock.advance(2000)
        timer.advance_clock(0)
        assert purgatory.check_and_complete("b") == 0
        assert (operation.log, other.log) == ([], ["complete", "expire"])
        assert operation.tries == (1 if when == "watched" else 2)


def test_watching_needs_a_key(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)()
    with pytest.raises(InvalidArgument, match="watch_keys must not be empty"):
        purgatory.try_complete_else_watch(operation, [])
    assert operation.tries == 0


@pytest.mark.parametrize("keys", ["topic", b"topic"])
def test_one_string_is_not_taken_for_a_list_of_its_letters(build: Build, purgatory: Purgatory, keys: Any) -> None:
    with pytest.raises(InvalidType, match=r"not one key: b?'topic'"):
        purgatory.try_complete_else_watch(probe_class(build)(), keys)


def test_only_operations_can_be_watched(purgatory: Purgatory) -> None:
    with pytest.raises(InvalidType, match="operation must be a DelayedOperation, not str: 'x'"):
        purgatory.try_complete_else_watch("x", ["a"])  # type: ignore[arg-type]


def test_a_key_without_hash_is_refused_and_nothing_is_left_behind(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)()
    reference = weakref.ref(operation)
    with pytest.raises(TypeError, match="unhashable"):
        purgatory.try_complete_else_watch(operation, ["a", []])  # type: ignore[list-item]
    assert purgatory.num_delayed == 0
    assert purgatory.check_and_complete("a") == 0
    del operation
    assert reference() is None


def test_a_key_named_twice_is_watched_once(build: Build, purgatory: Purgatory) -> None:
    purgatory.try_complete_else_watch(probe_class(build)(), ["a", "a", "b"])
    assert purgatory.watched == 2
    purgatory.try_complete_else_watch(probe_class(build)(), [1, *range(50), 1.0, True])
    assert purgatory.watched == 52


def test_keys_come_from_any_iterable(build: Build, purgatory: Purgatory) -> None:
    purgatory.try_complete_else_watch(probe_class(build)(), (key for key in ("a", "b")))
    purgatory.try_complete_else_watch(probe_class(build)(), {"a"})
    purgatory.try_complete_else_watch(probe_class(build)(), {"a": 1}.keys())
    assert purgatory.watched == 4


def test_a_completed_operation_is_not_watched(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)()
    operation.force_complete()
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert purgatory.watched == purgatory.num_delayed == 0


def test_watching_again_adds_keys_and_starts_the_clock_anew(
    build: Build, purgatory: Purgatory, clock: ManualClock
) -> None:
    operation = probe_class(build)(100)
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.advance(60)
    purgatory.try_complete_else_watch(operation, ["b"])
    assert (purgatory.watched, purgatory.num_delayed) == (2, 1)
    clock.advance(60)
    purgatory.advance()
    assert not operation.is_completed
    operation.ready = True
    assert purgatory.check_and_complete("a") == 1


# Checking


def test_a_check_completes_those_that_are_ready_and_counts_them(build: Build, purgatory: Purgatory) -> None:
    operations = [probe_class(build)() for _ in range(5)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
    assert purgatory.check_and_complete("k") == 0
    for operation in operations[1:4]:
        operation.ready = True
    assert purgatory.check_and_complete("other") == 0
    assert purgatory.check_and_complete("k") == 3
    assert purgatory.check_and_complete("k") == 0
    assert (purgatory.watched, purgatory.num_delayed) == (2, 2)


def test_a_check_tries_in_the_order_of_watching(build: Build, purgatory: Purgatory) -> None:
    order: list[int] = []
    for number in range(10):
        operation = probe_class(build)(then=lambda number=number: order.append(number))
        purgatory.try_complete_else_watch(operation, ["k"])
        operation.ready = True
    purgatory.check_and_complete("k")
    assert order == list(range(10))


def test_equal_keys_are_one_key(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)()
    purgatory.try_complete_else_watch(operation, [("topic", 0)])
    operation.ready = True
    assert purgatory.check_and_complete(("topic", 0)) == 1


def test_a_key_that_nobody_watches_any_more_leaves_the_map(build: Build, purgatory: Purgatory) -> None:
    class Key:
        pass

    key = Key()
    reference = weakref.ref(key)
    operation = probe_class(build)()
    purgatory.try_complete_else_watch(operation, [key])
    operation.ready = True
    purgatory.check_and_complete(key)
    del key
    assert reference() is None


def test_watched_counts_what_completed_operations_left_until_it_is_walked(build: Build, purgatory: Purgatory) -> None:
    """Kafka's own purge test."""
    first, second, third = (probe_class(build)(200_000) for _ in range(3))
    purgatory.try_complete_else_watch(first, ["test1"])
    purgatory.try_complete_else_watch(second, ["test1", "test2"])
    purgatory.try_complete_else_watch(third, ["test1", "test2", "test3"])
    assert (purgatory.num_delayed, purgatory.watched) == (3, 6)
    second.ready = True
    second.safe_try_complete()
    assert purgatory.num_delayed == 2
    third.ready = True
    third.safe_try_complete()
    assert purgatory.num_delayed == 1
    purgatory.check_and_complete("test1")
    assert purgatory.watched == 4
    purgatory.check_and_complete("test2")
    assert purgatory.watched == 2
    purgatory.check_and_complete("test3")
    assert purgatory.watched == 1


@pytest.mark.parametrize("how", ["key", "time", "force"])
def test_a_completed_operation_is_kept_alive_by_no_other_key(
    build: Build, purgatory: Purgatory, clock: ManualClock, how: str
) -> None:
    operation = probe_class(build)(50)
    reference = weakref.ref(operation)
    purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    operation.ready = True
    if how == "key":
        purgatory.check_and_complete("a")
    elif how == "time":
        clock.advance(50)
        purgatory.advance()
    else:
        operation.force_complete()
    assert operation.is_completed
    del operation
    gc.collect()
    assert reference() is None
    assert purgatory.watched == (2 if how == "key" else 3)


# Expiring


def test_an_operation_expires_at_its_deadline_and_not_before(
    build: Build, purgatory: Purgatory, clock: ManualClock
) -> None:
    operation = probe_class(build)(20)
    purgatory.try_complete_else_watch(operation, ["k"])
    clock.advance(19)
    assert purgatory.advance() is False
    assert not operation.is_completed
    clock.advance(1)
    assert purgatory.timer.advance_clock(0) is True
    assert operation.log == ["complete", "expire"]
    assert purgatory.num_delayed == 0
    assert purgatory.check_and_complete("k") == 0
    assert purgatory.watched == 0


def test_an_operation_without_time_expires_at_once_unless_it_is_ready(build: Build, purgatory: Purgatory) -> None:
    operation, ready = probe_class(build)(0), probe_class(build)(0)
    ready.ready = True
    assert purgatory.try_complete_else_watch(operation, ["k"]) is False
    assert operation.log == ["complete", "expire"]
    assert purgatory.try_complete_else_watch(ready, ["k"]) is True
    assert ready.log == ["complete"]


# Purging


def test_a_purge_happens_when_more_than_the_interval_is_estimated_to_be_left_behind(
    build: Build, clock: ManualClock
) -> None:
    with build.Purgatory("purge", clock=clock, purge_interval=10, reaper=False) as purgatory:
        operations = [probe_class(build)(50) for _ in range(11)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["a", "b"])
        for operation in operations[:10]:
            operation.force_complete()
        purgatory.advance()
        assert purgatory.watched == 22, "ten is not more than ten"
        operations[10].force_complete()
        purgatory.advance()
        assert purgatory.watched == 0
        assert purgatory.statistics().purged == 22
        survivor = probe_class(build)(50)
        purgatory.try_complete_else_watch(survivor, ["a"])
        clock.advance(50)
        purgatory.advance()
        assert purgatory.watched == 1, "the estimate starts anew after a purge"


def test_a_purge_keeps_those_who_wait_in_their_order_and_drops_dead_keys(build: Build, purgatory: Purgatory) -> None:
    class Key:
        pass

    key = Key()
    reference = weakref.ref(key)
    order: list[int] = []
    operations = []
    for number in range(20_000):
        operation = probe_class(build)(then=lambda number=number: order.append(number))
        operations.append(operation)
        purgatory.try_complete_else_watch(operation, ["many"])
    operations[7].force_complete()
    doomed = probe_class(build)()
    purgatory.try_complete_else_watch(doomed, [key])
    doomed.force_complete()
    for operation in operations[::2]:
        operation.force_complete()
    order.clear()
    assert purgatory.purge() == 10_002
    assert purgatory.watched == 9_999
    del key, doomed
    gc.collect()
    assert reference() is None
    for operation in operations:
        operation.ready = True
    purgatory.check_and_complete("many")
    assert order == [number for number in range(1, 20_000, 2) if number != 7]


# Cancelling


def test_cancelling_a_key_stops_the_clocks_and_completes_nobody(
    build: Build, purgatory: Purgatory, clock: ManualClock
) -> None:
    """Kafka's own cancel test."""
    operations = [probe_class(build)(100) for _ in range(3)]
    for operation, keys in zip(operations, (["k"], ["k", "other"], ["other"]), strict=True):
        purgatory.try_complete_else_watch(operation, keys)
    assert purgatory.cancel_for_key("k") == operations[:2]
    assert purgatory.num_delayed == 1
    assert purgatory.watched == 2
    assert purgatory.cancel_for_key("k") == []
    clock.advance(1000)
    purgatory.advance()
    assert [operation.is_completed for operation in operations] == [False, False, True]
    operations[1].ready = True
    assert purgatory.check_and_complete("other") == 1, "it still watches its other key"


def test_cancelling_one_operation_takes_it_off_all_its_keys(build: Build, purgatory: Purgatory) -> None:
    operation = probe_class(build)()
    reference = weakref.ref(operation)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert purgatory.cancel(operation) is True
    assert purgatory.cancel(operation) is False
    assert purgatory.num_delayed == 0
    operation.ready = True
    assert purgatory.check_and_complete("a") == purgatory.check_and_complete("b") == 0
    assert purgatory.watched == 0
    assert operation.log == []
    del operation
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("then", ["key", "operation"])
def test_an_operation_that_is_cancelled_again_counts_once(build: Build, purgatory: Purgatory, then: str) -> None:
    operation = probe_class(build)()
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert purgatory.cancel_for_key("a") == [operation]
    assert purgatory.statistics().cancelled == 1
    if then == "key":
        assert purgatory.cancel_for_key("b") == [operation]
    else:
        assert purgatory.cancel(operation) is True
    assert purgatory.statistics().cancelled == 1
    purgatory.try_complete_else_watch(operation, ["a"])
    assert purgatory.cancel(operation) is True
    assert purgatory.statistics().cancelled == 2, "it was let in anew"


# Closing


def wait_for_three(build: Build, purgatory: Purgatory) -> list[Any]:
    operations = [probe_class(build)(1000 + i) for i in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    return operations


def test_closing_leaves_what_waits_to_its_keys(build: Build, purgatory: Purgatory, clock: ManualClock) -> None:
    operations = wait_for_three(build, purgatory)
    purgatory.close("leave")
    clock.advance(10_000)
    purgatory.advance()
    assert not any(operation.is_completed for operation in operations)
    operations[0].ready = True
    assert purgatory.check_and_complete("b") == 1


def test_closing_stops_the_clocks_on_a_timer_that_was_passed_in(build: Build, clock: ManualClock) -> None:
    with build.SystemTimer("shared", clock=clock, executor=InlineExecutor()) as timer:
        purgatory = build.Purgatory("one", timer=timer, reaper=False)
        operations = wait_for_three(build, purgatory)
        with build.Purgatory("two", timer=timer, reaper=False) as other:
            neighbour = probe_class(build)(1000)
            other.try_complete_else_watch(neighbour, ["a"])
            purgatory.close("leave")
            clock.advance(10_000)
            timer.advance_clock(0)
            assert neighbour.log == ["complete", "expire"]
        assert not any(operation.is_completed for operation in operations)
        assert (timer.size, purgatory.statistics().cancelled) == (0, 0)
        operations[0].ready = True
        assert purgatory.check_and_complete("b") == 1


def test_closing_can_expire_what_waits(build: Build, purgatory: Purgatory) -> None:
    operations = wait_for_three(build, purgatory)
    purgatory.close("expire")
    assert [operation.log for operation in operations] == [["complete", "expire"]] * 3
    assert purgatory.watched == purgatory.num_delayed == 0
    assert purgatory.statistics().expired == 3


def test_closing_cancels_what_waits(build: Build, purgatory: Purgatory) -> None:
    operations = wait_for_three(build, purgatory)
    purgatory.close()
    assert all(operation.is_cancelled and not operation.is_completed for operation in operations)
    assert purgatory.watched == purgatory.num_delayed == 0
    assert purgatory.statistics().cancelled == 3


def test_a_closed_purgatory_takes_no_more_operations_and_closes_twice(build: Build, purgatory: Purgatory) -> None:
    purgatory.close("expire")
    purgatory.close("cancel")
    with pytest.raises(Closed, match="'test' is closed"):
        purgatory.try_complete_else_watch(probe_class(build)(), ["k"])


def test_closing_needs_a_known_policy(purgatory: Purgatory) -> None:
    with pytest.raises(InvalidArgument, match="'drop'"):
        purgatory.close("drop")  # type: ignore[arg-type]


def test_a_timer_that_was_passed_in_is_left_open(build: Build, clock: ManualClock) -> None:
    timer = build.SystemTimer("shared", clock=clock)
    with timer, build.Purgatory("one", timer=timer, reaper=False) as one:
        with build.Purgatory("two", timer=timer, reaper=False) as two:
            two.try_complete_else_watch(probe_class(build)(), ["k"])
        assert one.try_complete_else_watch(probe_class(build)(), ["k"]) is False
        assert one.clock is clock


# Counting


def test_statistics_say_what_became_of_operations(build: Build, purgatory: Purgatory, clock: ManualClock) -> None:
    first, second, third, fourth = (probe_class(build)(100) for _ in range(4))
    first.ready = True
    for operation in (first, second, third, fourth):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    clock.advance(5)
    second.ready = True
    purgatory.check_and_complete("a")
    purgatory.cancel(fourth)
    clock.advance(98)
    purgatory.advance()
    purgatory.purge()
    statistics = purgatory.statistics()
    assert statistics.name == "test"
    assert (statistics.completed, statistics.expired, statistics.cancelled, statistics.purged) == (2, 1, 1, 5)
    assert (statistics.watched, statistics.delayed) == (0, 0)
    # Waited: 0 ms, 5 ms (up to 7), 103 ms (up to 127). Late: 3 ms (up to 3).
    assert [place for place, count in enumerate(statistics.waits) if count] == [0, 3, 7]
    assert statistics.waited_ms == 108
    assert [place for place, count in enumerate(statistics.lateness) if count] == [2]
    assert statistics.late_ms == 3


def test_a_purgatory_says_what_it_is(build: Build, purgatory: Purgatory) -> None:
    purgatory.try_complete_else_watch(probe_class(build)(), ["k"])
    assert repr(purgatory) == "<Purgatory 'test' delayed=1>"


def test_a_purge_interval_has_to_be_a_count(build: Build) -> None:
    with pytest.raises(InvalidArgument, match="purge_interval"):
        build.Purgatory("p", purge_interval=-1)


def test_an_operation_whose_base_was_never_initialised_is_refused(build: Build, purgatory: Purgatory) -> None:
    class Forgetful(build.DelayedOperation):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            pass

        def try_complete(self) -> bool:
            return False

    with pytest.raises((InvalidArgument, AttributeError)):
        purgatory.try_complete_else_watch(Forgetful(), ["k"])
    assert purgatory.check_and_complete("k") == 0
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_a_purgatory_that_is_forgotten_lets_go_of_what_waited_in_it(build: Build, clock: ManualClock) -> None:
    purgatory = build.Purgatory("forgotten", clock=clock, reaper=False)
    operation = probe_class(build)()
    reference, purgatory_reference = weakref.ref(operation), weakref.ref(purgatory)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory.itself = purgatory  # so that the cyclic collector has to free it
    del purgatory
    gc.collect()
    assert purgatory_reference() is None or build.name == "readable"
    assert operation.force_complete() is True
    assert operation.log == ["complete"]
    del operation
    gc.collect()
    assert reference() is None
    assert purgatory_reference() is None


def test_a_purgatory_whose_init_never_ran_takes_no_operations(build: Build) -> None:
    class Forgetful(build.Purgatory):  # type: ignore[misc, name-defined]
        def __init__(self) -> None: ...

    with pytest.raises((InvalidArgument, AttributeError)):
        Forgetful().try_complete_else_watch(probe_class(build)(), ["k"])
