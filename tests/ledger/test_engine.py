"""The engine driven by hand with integers: its inner order after every step, and that it leaves no garbage."""

from __future__ import annotations

import random

from dwell.ledger import Need, Wait
from dwell.ledger.engine import Engine
from dwell.ledger.heap import TOLERATED, Heap
from dwell.ledger.key import Key
from dwell.ledger.operation import Operation
from tests.ledger import model
from tests.ledger.history import random_history


def signals(key: Key) -> list[Operation]:
    return [] if key.signal is None else [key.signal, *(key.signals or ())]


def levels(key: Key) -> list[tuple[int, Operation]]:
    return [] if key.levels is None else key.levels.entries()


def entries(key: Key) -> int:
    return len(levels(key)) + len(signals(key))


def check_heap(heap: Heap) -> None:
    order = [(rank, op.number) for rank, op in heap.entries()]
    assert all(order[(place - 1) // 2] <= order[place] for place in range(1, len(order)))
    assert 0 <= 2 * heap.dead <= len(order) + TOLERATED


def check(engine: Engine) -> None:
    """Every operation that waits is where it should be, once, and the dead are counted and few."""
    settled = engine.completed + engine.expired + engine.rejected + engine.cancelled
    assert engine.opened == settled + engine.pending
    waiting = [op for op in engine.register.operations.values() if op.outcome is None]
    assert len(waiting) == engine.pending
    expected = dict.fromkeys(engine.keys, 0)
    for op in waiting:
        assert (op.deadline_ms, op) in engine.deadlines.entries()
        for i, (name, level) in enumerate(op.needs):
            assert name is not None
            if op.thresholds is not None:
                level = op.thresholds[i]
                awaits = level is not None
            else:
                awaits = op.met_since(i) is None
            if awaits:
                key = engine.keys[name]
                if level is None:
                    assert op in signals(key)
                else:
                    assert (level, op) in levels(key)
                    assert not key.has_level or level > key.level
                expected[name] += 1
    for name, key in engine.keys.items():
        dead = key.dead if key.levels is None else key.dead + key.levels.dead
        assert entries(key) - dead == expected[name]
        assert 0 <= 2 * key.dead <= len(signals(key)) + TOLERATED
        assert key.has_level or expected[name] > 0
        assert key.is_idle() == (expected[name] == 0)
        if key.levels is not None:
            check_heap(key.levels)
    check_heap(engine.deadlines)
    assert len(engine.deadlines) - engine.deadlines.dead == engine.pending == len(engine.waiting())


def test_the_inner_order_holds_after_every_step() -> None:
    for seed in range(600):
        rng = random.Random(seed)
        waits, events = random_history(rng, size=14)
        steps: list[tuple[int, int, object]] = [
            (wait.submitted_at_ms or 0, 0, wait) for wait in waits if model.own_fault(wait) is None
        ]
        steps += [(event.at_ms, 1, event) for event in events if event.at_ms is not None and event.key is not None]
        engine = Engine(rng.choice((None, 0, 5)), rng.choice((None, 0, 5)))
        for now_ms, _, row in sorted(steps, key=lambda step: step[:2]):
            engine.at(now_ms)
            if isinstance(row, Wait):
                op = engine.open(row)
                engine.settle()
                check(engine)
                if rng.random() < 0.2:
                    engine.cancel(op)
            else:
                engine.record(row.key, row.level)  # type: ignore[attr-defined]
                engine.settle()
            check(engine)
            if rng.random() < 0.3:
                engine.expire(now_ms)
                check(engine)


def test_settled_operations_leave_no_garbage_at_a_key_they_share() -> None:
    engine = Engine(0, 0)
    engine.at(0)
    engine.open(Wait("stays", [Need("shared", 1), Need("shared signal")], 10**6, 0))
    for number in range(10_000):
        engine.at(number)
        needs = [Need("shared", 10**9 - number), Need("shared signal"), Need(f"own-{number}")]
        op = engine.open(Wait(f"{number}", needs, 1000, number))
        engine.open(Wait(f"v{number}", [Need("shared", 5), Need("other", 5)], 3, number, volume=10**9 + number))
        engine.cancel(op)
        engine.expire(number)
        assert len(engine.keys) <= 3
        assert all(entries(key) <= 3 * TOLERATED for key in engine.keys.values())
    assert len(engine.deadlines) <= 2 * TOLERATED


def test_thresholds_that_move_and_come_back_are_counted_right() -> None:
    """Many volumes over few keys, so that their thresholds move past each other and what is dead is cleaned out."""
    for seed in range(60):
        rng = random.Random(seed)
        engine = Engine()
        engine.at(0)
        names = ["a", "b", "c"]
        levels = dict.fromkeys(names, 0)
        operations = []
        for number in range(400):
            if rng.random() < 0.3:
                needs = [Need(name, levels[name] + rng.randint(-5, 5)) for name in rng.sample(names, rng.randint(2, 3))]
                operations.append(engine.open(Wait(f"{number}", needs, 10**6, 0, volume=rng.randint(1, 60))))
            else:
                name = rng.choice(names)
                levels[name] += rng.choice((0, 1, 1, 2, 9))
                engine.record(name, levels[name])
            engine.settle()
            if number % 20 == 0:
                check(engine)
        for op in operations:
            reached = sum(max(0, levels[str(need.key)] - (need.level or 0)) for need in op.needs)
            assert (op.outcome == "completed") == (reached >= (op.volume or 0))


def test_a_volume_beyond_64_bits_waits_for_what_can_come() -> None:
    engine = Engine()
    engine.at(0)
    needs = [Need("high", 2**63 - 10), Need("low", -(2**63))]
    op = engine.open(Wait("x", needs, 1000, 0, volume=2**63 - 1))
    engine.record("high", 2**63 - 1)
    engine.settle()
    check(engine)
    assert op.outcome is None
    engine.record("low", -11)
    engine.settle()
    assert op.outcome is None
    engine.at(5)
    engine.record("low", -10)
    engine.settle()
    assert op.row().completed_by == "low"
    check(engine)


def test_an_event_touches_only_what_it_satisfies() -> None:
    """A hundred thousand waits on one key, each event meeting one of them, in time that would not do for a scan."""
    engine = Engine()
    engine.at(0)
    count = 100_000
    for number in range(count):
        engine.open(Wait(f"{number}", [Need("key", number)], 1000, 0))
    for number in range(count):
        engine.record("key", number)
        engine.settle()
    assert engine.completed == count


def test_a_volume_is_looked_at_a_logarithmic_number_of_times() -> None:
    engine = Engine()
    engine.at(0)
    needs = [Need(f"k{i}", 0) for i in range(3)]
    op = engine.open(Wait("x", needs, 1000, 0, volume=3_000_000))
    looks = 0
    thresholds = list(op.thresholds or [])
    for level in range(1, 1_000_001, 10):
        for i in range(3):
            engine.record(f"k{i}", level)
            if op.thresholds != thresholds:
                looks += 1
                thresholds = list(op.thresholds or [])
    assert op.outcome is None
    assert looks < 3 * 3 * 21
