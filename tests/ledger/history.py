"""Random histories: a plain seeded function, so that any engine can be compared on the same rows.

    waits, events = random_history(random.Random(17))

Times lie in a handful of milliseconds and keys are few, so that ties, early events, repeats and clashes are the rule.
Extreme values of every column are among them: all are values that a 64-bit column, a Spark timestamp or a UTF-8 string
can hold. The seed alone reproduces a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.ledger import Event, Need, Wait

if TYPE_CHECKING:
    from random import Random

FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999
BIG = 2**63 - 1
LOW = -(2**63)

# The greatest and smallest times a Spark timestamp (64 bits of microseconds) can hold, in milliseconds.
FURTHEST_MS = 9_223_372_036_854_775
EDGES_MS = (FIRST_MS - 1, FIRST_MS, LAST_MS, LAST_MS + 1, FURTHEST_MS, -FURTHEST_MS)

# U+FFEE and U+1F600 sort differently by code point and by UTF-16 unit. "e" with a combining accent is another key than
# "é"; the rest is what escaping, trimming or C strings could get wrong.
KEYS = ("a", "b", "c", "", "é", "\uffee", "\U0001f600", "e\u0301", "\0", "a\0", " ", "null", "a,\"b'\\\n", "k" * 300)
OP_IDS = (" ", "\0", "null", "\U0001f600", "é\n", "x" * 300)

# Beyond 32 bits, at their edges, and at the edges of 64 bits.
NUMBERS = (3_000_000_000, -3_000_000_000, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, BIG, LOW)


def random_history(rng: Random, *, size: int = 8) -> tuple[list[Wait], list[Event]]:
    """Up to `size` operations and twice as many events, in any order, bad rows among them."""
    span = rng.choice((3, 10, 40))
    origin = rng.choice((0, 0, 0, 1_700_000_000_000, FIRST_MS, LAST_MS - span))
    keys = KEYS[: rng.randint(1, 4)] if rng.random() < 0.8 else tuple(rng.sample(KEYS, 7))
    scale = rng.choice((3, 3, 10, 100, BIG))
    waits: list[Wait] = []
    for _ in range(rng.randint(0, size)):
        if waits and rng.random() < 0.2:
            waits.append(_variant(rng, rng.choice(waits), keys, scale))
        else:
            waits.append(_wait(rng, origin, span, keys, scale))
        if rng.random() < 0.08:
            waits[-1] = _spoilt(rng, waits[-1], keys)
    events = [_event(rng, origin, span, keys, scale) for _ in range(rng.randint(0, 2 * size))]
    events += [rng.choice(events) for _ in range(rng.randint(0, 2)) if events]
    rng.shuffle(waits)
    return waits, events


def moments(rng: Random, waits: list[Wait], events: list[Event]) -> int:
    """A moment worth asking `as_of` for: a submission, a deadline, an event, or one beside it."""
    times = [0]
    for wait in waits:
        times += [wait.submitted_at_ms or 0, (wait.submitted_at_ms or 0) + (wait.delay_ms or 0)]
    times += [event.at_ms or 0 for event in events]
    return rng.choice(times) + rng.randint(-1, 1)


def _wait(rng: Random, origin: int, span: int, keys: tuple[str, ...], scale: int) -> Wait:
    chosen = rng.sample(keys, rng.randint(1, min(len(keys), 3)))
    kind = rng.choice(("all", "any", "quorum", "volume"))
    signals = 0.0 if kind == "volume" else rng.choice((0.0, 0.4, 1.0))
    needs = [Need(key, None if rng.random() < signals else _level(rng, scale)) for key in chosen]
    quorum = {"any": 1, "quorum": rng.randint(1, len(needs))}.get(kind)
    volume = rng.randint(1, min(3 * scale, BIG)) if kind == "volume" else None
    op_id = f"op{rng.randint(0, 30)}" if rng.random() < 0.95 else rng.choice(OP_IDS)
    submitted_at_ms = origin + rng.randint(0, span)
    delay_ms = rng.choice((0, 1, rng.randint(0, span), rng.randint(0, 2 * span)))
    if rng.random() < 0.04:
        # The last deadline there is, and the one after it.
        delay_ms = LAST_MS - submitted_at_ms + rng.randint(0, 1)
    return Wait(op_id, needs, delay_ms, submitted_at_ms, quorum, volume)


def _level(rng: Random, scale: int) -> int:
    level = rng.choice((rng.randint(0, min(scale, 3)), rng.randint(-scale, scale)))
    return rng.choice((level, level, level, LOW, LOW + 1, BIG, BIG - 1, *NUMBERS)) if scale == BIG else level


def _event(rng: Random, origin: int, span: int, keys: tuple[str, ...], scale: int) -> Event:
    event = Event(
        rng.choice(keys), origin + rng.randint(-2, 2 * span), None if rng.random() < 0.25 else _level(rng, scale)
    )
    if rng.random() < 0.04:
        changes: list[dict[str, Any]] = [{"key": None}, {"at_ms": None}]
        changes += [{"at_ms": at_ms} for at_ms in EDGES_MS]
        return event._replace(**rng.choice(changes))
    return event


def _variant(rng: Random, wait: Wait, keys: tuple[str, ...], scale: int) -> Wait:
    """The same operation again, with its needs in another order, or with one thing changed."""
    needs = list(wait.needs or [])
    rng.shuffle(needs)
    again = wait._replace(needs=needs)
    change = rng.randint(0, 6)
    if change == 0:
        return again._replace(submitted_at_ms=(wait.submitted_at_ms or 0) + rng.choice((-1, 1)))
    if change == 1:
        return again._replace(delay_ms=(wait.delay_ms or 0) + 1)
    if change == 2 and needs and needs[0] is not None:
        other = None if rng.random() < 0.5 and wait.volume is None else _level(rng, scale)
        return again._replace(needs=[Need(needs[0].key, other), *needs[1:]])
    if change == 3:
        return again._replace(needs=[*needs, Need(rng.choice(keys), 1)])
    if change == 4 and wait.volume is None:
        return again._replace(quorum=None if wait.quorum else 1)
    if change == 5 and wait.volume is not None:
        return again._replace(volume=wait.volume + (-1 if wait.volume == BIG else 1))
    return again


def _spoilt(rng: Random, wait: Wait, keys: tuple[str, ...]) -> Wait:
    needs = list(wait.needs or [])
    faults: list[dict[str, Any]] = [
        {"op_id": None},
        {"op_id": ""},
        {"submitted_at_ms": None},
        {"submitted_at_ms": rng.choice(EDGES_MS)},
        {"submitted_at_ms": rng.choice(EDGES_MS), "delay_ms": LAST_MS - FIRST_MS},
        {"delay_ms": None},
        {"delay_ms": -rng.randint(1, 5)},
        {"delay_ms": rng.choice(NUMBERS)},
        {"delay_ms": rng.choice((BIG, LOW))},
        {"needs": None},
        {"needs": []},
        {"needs": [*needs, Need(None, rng.choice((None, 1)))]},
        {"needs": [*needs, *needs, Need(rng.choice(keys), 0)]},
        {"quorum": 0},
        {"quorum": len(needs) + 1},
        {"quorum": rng.choice(NUMBERS)},
        # Cut to 32 bits this would be a quorum of 1.
        {"quorum": 2**32 + 1},
        {"volume": 0},
        {"volume": rng.choice(NUMBERS)},
        {"volume": rng.choice((BIG, LOW)), "quorum": None},
        {"volume": 1, "quorum": 1},
        {"volume": 1, "quorum": None, "needs": [Need(key) for key in keys[:2]]},
    ]
    return wait._replace(**rng.choice(faults))
