"""Many histories in one job: a prefix of all op_ids and keys keeps them apart.

Some rows get a value from the ends of what a column can hold. Values beyond that are left out.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from dwell.contract.columns import is_bigint
from tests.ledger.history import random_history

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dwell.ledger import Event, Need, Wait

# The ends of a bigint and of an int, and the numbers beside them.
NUMBERS = [
    *(-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1),
    *(-(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 3_000_000_000),
    *(-1, 0),
]

# A timestamp is a bigint of microseconds.
FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS = -(2**63) // 1000 + 1, (2**63 - 1) // 1000
TIMES = [FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + 1, LAST_TIMESTAMP_MS - 1, LAST_TIMESTAMP_MS]


def histories(seeds: Iterable[int], size: int = 8) -> tuple[list[Wait], list[Event]]:
    waits: list[Wait] = []
    events: list[Event] = []
    for seed in seeds:
        some_waits, some_events = apart(f"{seed}:", *column_history(Random(seed), size))
        waits += some_waits
        events += some_events
    return waits, events


def column_history(rng: Random, size: int) -> tuple[list[Wait], list[Event]]:
    """A random history that columns can hold, some of its rows with an extreme value in one of them."""
    waits, events = random_history(rng, size=size)
    waits = [_extreme_wait(rng, wait) if rng.random() < 0.1 else wait for wait in waits]
    events = [_extreme_event(rng, event) if rng.random() < 0.05 else event for event in events]
    return [wait for wait in waits if _is_held(wait)], [event for event in events if _is_held(event)]


def _extreme_wait(rng: Random, wait: Wait) -> Wait:
    needs = list(wait.needs or [])
    changes: list[dict[str, Any]] = [
        {"submitted_at_ms": rng.choice(TIMES)},
        {"delay_ms": rng.choice(NUMBERS)},
        {"quorum": rng.choice(NUMBERS)},
        {"volume": rng.choice(NUMBERS)},
        {"quorum": rng.choice(NUMBERS), "volume": rng.choice(NUMBERS)},
        {"needs": [need and need._replace(level=rng.choice(NUMBERS)) for need in needs]},
        {"needs": needs[:1], "quorum": rng.choice(NUMBERS)},
    ]
    return wait._replace(**rng.choice(changes))


def _extreme_event(rng: Random, event: Event) -> Event:
    changes: list[dict[str, Any]] = [{"at_ms": rng.choice(TIMES)}, {"level": rng.choice(NUMBERS)}]
    return event._replace(**rng.choice(changes))


def _is_held(row: Wait | Event) -> bool:
    """Whether columns can hold it: numbers in 64 bits, times in a timestamp."""
    named = row._asdict()
    times = [named.get("submitted_at_ms"), named.get("at_ms")]
    numbers: Sequence[int | None] = [named.get(name) for name in ("delay_ms", "quorum", "volume", "level")]
    return all(at is None or FIRST_TIMESTAMP_MS <= at <= LAST_TIMESTAMP_MS for at in times) and all(
        number is None or is_bigint(number) for number in numbers
    )


def apart(prefix: str, waits: Iterable[Wait], events: Iterable[Event]) -> tuple[list[Wait], list[Event]]:
    return (
        [_wait(prefix, wait) for wait in waits],
        [e._replace(key=None if e.key is None else prefix + e.key) for e in events],
    )


def _wait(prefix: str, wait: Wait) -> Wait:
    needs = None if wait.needs is None else [_need(prefix, need) for need in wait.needs]
    return wait._replace(op_id=wait.op_id and prefix + wait.op_id, needs=needs)


def _need(prefix: str, need: Need) -> Need:
    return need if need.key is None else need._replace(key=prefix + need.key)
