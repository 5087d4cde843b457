"""Many histories in one job: a prefix of all op_ids and keys keeps them apart.

A delay beyond 64 bits, which a column cannot hold, is left out.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from dwell.ledger.item import fits
from tests.ledger.history import random_history

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwell.ledger import Event, Need, Wait


def histories(seeds: Iterable[int], size: int = 8) -> tuple[list[Wait], list[Event]]:
    waits: list[Wait] = []
    events: list[Event] = []
    for seed in seeds:
        some_waits, some_events = apart(f"{seed}:", *random_history(Random(seed), size=size))
        waits += [wait for wait in some_waits if wait.delay_ms is None or fits(wait.delay_ms)]
        events += some_events
    return waits, events


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
