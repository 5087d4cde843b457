"""The engine driven by hand with integers: its inner order after every step, and that it leaves no garbage."""

from __future__ import annotations

import random
import sys

from dwell.ledger import Engine, Need, Wait
from tests.ledger import model
from tests.ledger.history import random_history


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
                engine._check()
                if rng.random() < 0.2:
                    engine.cancel(op)
            else:
                engine.record(row.key, row.level)  # type: ignore[attr-defined]
                engine.settle()
            engine._check()
            if rng.random() < 0.3:
                engine.expire(now_ms)
                engine._check()


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
        engine._check()


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
                engine._check()
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
    engine._check()
    assert op.outcome is None
    engine.record("low", -11)
    engine.settle()
    assert op.outcome is None
    engine.at(5)
    engine.record("low", -10)
    engine.settle()
    assert op.row().completed_by == "low"
    engine._check()


def test_a_level_that_a_volume_counts_on_is_not_forgotten() -> None:
    """Nothing greater can come at "end", so nobody waits there; what it has reached still counts."""
    engine = Engine(key_retention_ms=1000)
    engine.at(0)
    op = engine.open(Wait("x", [Need("end", 2**63 - 51), Need("b", 0)], 10**6, 0, volume=100))
    engine.record("end", 2**63 - 1)
    engine.at(5000)
    engine.record("b", 50)
    engine.settle()
    assert op.outcome == "completed"
    engine.at(10_000)
    assert not engine.keys


def test_retentions_of_any_size_are_kept() -> None:
    for retention_ms in (sys.maxsize, 2**70):
        engine = Engine(retention_ms, retention_ms)
        engine.at(0)
        engine.record("a", 1)
        engine.at(10**9)
        op = engine.open(Wait("x", [Need("a", 1)], 5, 10**9))
        engine.settle()
        assert op.outcome == "completed"


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
    thresholds = dict(op.watched)
    for level in range(1, 1_000_001, 10):
        for i in range(3):
            engine.record(f"k{i}", level)
            if op.watched != thresholds:
                looks += 1
                thresholds = dict(op.watched)
    assert op.outcome is None
    assert looks < 3 * 3 * 21
