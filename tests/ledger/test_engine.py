"""The engine driven by hand with integers: its inner order after every step, and that it leaves no garbage."""

from __future__ import annotations

import random

from dwell.ledger import Need, Wait
from dwell.ledger.engine import TOLERATED, Engine
from dwell.ledger.operation import Key, Operation
from tests.ledger import model
from tests.ledger.history import random_history


def places(engine: Engine) -> dict[int, list[tuple[int | None, Operation]]]:
    return {
        id(key): [(entry[0], entry[2]) for entry in key.levels] + [(None, op) for op in key.signals]
        for key in engine.keys.values()
    }


def check(engine: Engine) -> None:
    """Every operation that waits is where it should be, once, and the dead are counted and few."""
    settled = engine.completed + engine.expired + engine.rejected + engine.cancelled
    assert engine.opened == settled + engine.pending
    waiting = [op for op in engine.operations.values() if isinstance(op, Operation) and op.outcome is None]
    assert len(waiting) == engine.pending
    expected: dict[int, int] = {id(key): 0 for key in engine.keys.values()}
    at = places(engine)
    for op in waiting:
        assert op.keys is not None
        assert engine.buckets[op.deadline_ms] is op.bucket
        for i, (need, key) in enumerate(zip(op.needs, op.keys, strict=True)):
            if op.thresholds is not None:
                threshold = op.thresholds[i]
                awaits = threshold is not None
            else:
                threshold = need[1]
                awaits = key.name not in (op.met or {})
            if awaits:
                assert any(entry[0] == threshold and entry[1] is op for entry in at[id(key)])
                assert threshold is None or key.level is None or threshold > key.level
                expected[id(key)] += 1
    for key in engine.keys.values():
        total = len(key.levels) + len(key.signals)
        assert total - key.dead == expected[id(key)]
        assert 2 * key.dead <= total + TOLERATED
        assert key.level is not None or expected[id(key)] > 0
    for bucket in engine.buckets.values():
        op_or_none = bucket.head
        while op_or_none is not None:
            assert op_or_none.outcome is None
            op_or_none = op_or_none.next


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
                if op is not None and rng.random() < 0.2:
                    engine.cancel(op)
            else:
                engine.record(row.key, row.level)  # type: ignore[attr-defined]
                engine.settle()
            check(engine)
            if rng.random() < 0.3:
                engine.expire(now_ms)
                check(engine)


def entries(key: Key) -> int:
    return len(key.levels) + len(key.signals)


def test_settled_operations_leave_no_garbage_at_a_key_they_share() -> None:
    engine = Engine(0, 0)
    engine.at(0)
    engine.open(Wait("stays", [Need("shared", 1), Need("shared signal")], 10**6, 0))
    for number in range(10_000):
        engine.at(number)
        needs = [Need("shared", 10**9 - number), Need("shared signal"), Need(f"own-{number}")]
        op = engine.open(Wait(f"{number}", needs, 1000, number))
        engine.open(Wait(f"v{number}", [Need("shared", 5), Need("other", 5)], 3, number, volume=10**9 + number))
        assert op is not None
        engine.cancel(op)
        engine.expire(number)
        assert len(engine.keys) <= 3
        assert all(entries(key) <= 2 * TOLERATED for key in engine.keys.values())
    assert len(engine.buckets) <= 5


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
    assert op is not None
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
