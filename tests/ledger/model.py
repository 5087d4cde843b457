"""A second reading of the contract, in the plainest way: try every moment. It shares no code with the library.

Quadratic and proud of it. Rows are the library's values, read only by field name; the answer is plain tuples
(op_id, outcome, finished_at_ms, waited_ms, completed_by, reason).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwell.ledger import Event, Need, Wait

YEAR_1 = -62_135_596_800_000
YEAR_9999_ENDS = 253_402_300_799_999

Row = tuple[str | None, str, int | None, int | None, str | None, str | None]


def outcomes(waits: Iterable[Wait], events: Iterable[Event], as_of_ms: int | None = None) -> list[Row]:
    """Every outcome the contract asks for, sorted."""
    good = [e for e in events if e.key is not None and e.at_ms is not None and YEAR_1 <= e.at_ms <= YEAR_9999_ENDS]
    answer: list[Row] = []
    by_id: dict[str, list[Wait]] = {}
    for wait in waits:
        if wait.op_id:
            by_id.setdefault(wait.op_id, []).append(wait)
        else:
            answer.append((wait.op_id, "rejected", None, None, None, own_fault(wait)))
    for op_id, rows in by_id.items():
        different: list[Wait] = []
        for row in rows:
            if not any(same(row, other) for other in different):
                different.append(row)
        sound = sorted((row for row in different if own_fault(row) is None), key=order)
        for row in different:
            if reason := own_fault(row):
                answer.append((op_id, "rejected", None, None, None, reason))
        for _ in sound[1:]:
            answer.append((op_id, "rejected", None, None, None, f"op_id was used before with other content: {op_id}"))
        if sound:
            answer.append(decide(sound[0], good, as_of_ms))
    return sorted(answer, key=repr)


def own_fault(wait: Wait) -> str | None:
    needs = wait.needs
    if wait.op_id is None:
        return "op_id is null"
    if wait.op_id == "":
        return "op_id is empty"
    if wait.submitted_at_ms is None:
        return "submitted_at is null"
    if not YEAR_1 <= wait.submitted_at_ms <= YEAR_9999_ENDS:
        return f"submitted_at is out of range: {wait.submitted_at_ms}"
    if wait.delay_ms is None:
        return "delay_ms is null"
    if wait.delay_ms < 0:
        return f"delay_ms is negative: {wait.delay_ms}"
    if wait.submitted_at_ms + wait.delay_ms > YEAR_9999_ENDS:
        return f"delay_ms puts the deadline out of range: {wait.delay_ms}"
    if needs is None:
        return "needs is null"
    if len(needs) == 0:
        return "needs is empty"
    if any(need is None or need.key is None for need in needs):
        return "needs has a null key"
    keys = [str(need.key) for need in needs]
    if repeated := [key for key in keys if keys.count(key) > 1]:
        return f"needs repeats a key: {min(repeated)}"
    if wait.quorum is not None and (wait.quorum < 1 or wait.quorum > len(needs)):
        return f"quorum is outside 1 to the number of needs: {wait.quorum}"
    if wait.volume is not None:
        if wait.volume <= 0:
            return f"volume is not positive: {wait.volume}"
        if wait.quorum is not None:
            return f"volume excludes quorum: {wait.quorum}"
        if bare := [str(need.key) for need in needs if need.level is None]:
            return f"volume needs a level for every key: {min(bare)}"
    return None


def same(a: Wait, b: Wait) -> bool:
    if (a.submitted_at_ms, a.delay_ms, a.quorum, a.volume) != (b.submitted_at_ms, b.delay_ms, b.quorum, b.volume):
        return False
    if a.needs is None or b.needs is None:
        return a.needs is None and b.needs is None
    rest = [(None, None) if need is None else (need.key, need.level) for need in b.needs]
    for need in a.needs:
        pair = (None, None) if need is None else (need.key, need.level)
        if pair not in rest:
            return False
        rest.remove(pair)
    return not rest


def order(wait: Wait) -> list[Any]:
    """The contract's "First", for rows without faults: null sorts before any number."""
    needs = sorted(wait.needs or [], key=lambda need: str(need.key).encode())
    return [
        wait.submitted_at_ms,
        wait.delay_ms,
        [(str(need.key).encode(), [] if need.level is None else [need.level]) for need in needs],
        [] if wait.quorum is None else [wait.quorum],
        [] if wait.volume is None else [wait.volume],
    ]


def decide(wait: Wait, events: list[Event], as_of_ms: int | None) -> Row:
    submitted, delay = wait.submitted_at_ms or 0, wait.delay_ms or 0
    deadline = submitted + delay
    last = deadline if as_of_ms is None else min(deadline, as_of_ms)
    own_keys = {need.key for need in wait.needs or []}
    own = [e for e in events if e.key in own_keys]
    moments = sorted({submitted} | {e.at_ms or 0 for e in own})
    for t in moments:
        if submitted <= t <= last and holds(wait, own, t):
            return (wait.op_id, "completed", t, t - submitted, completed_by(wait, own, t), None)
    if as_of_ms is None or deadline <= as_of_ms:
        return (wait.op_id, "expired", deadline, delay, None, None)
    return (wait.op_id, "pending", None, None, None, None)


def level_at(key: str | None, events: list[Event], t: int) -> int | None:
    levels = [e.level for e in events if e.key == key and (e.at_ms or 0) <= t and e.level is not None]
    return max(levels, default=None)


def is_met(need: Need, wait: Wait, events: list[Event], t: int) -> bool:
    if need.level is None:
        return any(e.key == need.key and (wait.submitted_at_ms or 0) <= (e.at_ms or 0) <= t for e in events)
    level = level_at(need.key, events, t)
    return level is not None and level >= need.level


def excess(need: Need, events: list[Event], t: int) -> int:
    level = level_at(need.key, events, t)
    return 0 if level is None else max(0, level - (need.level or 0))


def holds(wait: Wait, events: list[Event], t: int) -> bool:
    needs = wait.needs or []
    if wait.volume is not None:
        return sum(excess(need, events, t) for need in needs) >= wait.volume
    met = sum(is_met(need, wait, events, t) for need in needs)
    return met >= (len(needs) if wait.quorum is None else wait.quorum)


def completed_by(wait: Wait, events: list[Event], t: int) -> str:
    needs = wait.needs or []
    submitted = wait.submitted_at_ms or 0
    if wait.volume is None:
        # Met at t, and either t is the submission or it was not yet met at the moment before.
        fresh = [n for n in needs if is_met(n, wait, events, t)]
        if t > submitted:
            fresh = [n for n in fresh if not is_met(n, wait, events, t - 1)]
        return min(str(n.key) for n in fresh)
    rises: list[tuple[int, str]] = []
    for need in needs:
        if excess(need, events, t) > 0:
            times = sorted({e.at_ms or 0 for e in events if e.key == need.key and (e.at_ms or 0) <= t})
            rose = [at for at in times if level_at(need.key, events, at) != level_at(need.key, events, at - 1)]
            rises.append((-max(rose), str(need.key)))
    return min(rises)[1]
