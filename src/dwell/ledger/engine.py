"""The decisions: operations in, events in, outcomes out. Whole milliseconds, no clock, no thread, no lock.

The live ledger and `replay` drive the same engine. At one instant they call, in the contract's order:

    at(t)            the engine's time is t, never earlier; what had its deadline before t and still waits is expired
    open(wait)       for each operation submitted at t
    record(k, level) for each event at t
    settle()         what the events of the instant made true is completed
    expire(t)        what has its deadline at t and still waits is expired; the next at() would do it too

and take the decided operations from `settled`. A live ledger cannot know which events the current millisecond still
brings, so it settles after each call, in the order of the calls; replay settles once per instant. That is the only
difference between them.

A need waits at its key. Needs with a level lie in a heap by level, so an event touches only what it satisfies; signals
wait for the next event, which meets them all. A volume over k keys waits at each of them for 1/k of what is missing: as
long as no key has risen by its share, the sum cannot have been reached. So these waits are thresholds in the same heap,
and an operation is looked at O(k log volume) times, however many events come.

Worked example: volume 100 over (a, 0) and (b, 0). Missing 100, so the thresholds are a ≥ 50 and b ≥ 50 (rounded up).
Event a = 60: sum 60, missing 40, new thresholds a ≥ 80, b ≥ 20. Event b = 30: sum 90, missing 10: a ≥ 65, b ≥ 35. Event
a = 70: sum 100, completed by a.

Deadlines lie in a heap, not on the timing wheel. The engine knows no clock: replay jumps through recorded time, and
needs deadlines in their exact order. A wait that completes in time costs the heap next to nothing: its entry, 16 bytes
in the compiled twin, goes to the end and stays there as a dead one. Measured on the compiled twin with delays of 1 ms
to 60 s: the heap adds 16 ns to an `open` with 10,000 waiting and 111 ns with a million, and 0 to 150 ns to a cancel. To
add a task to the wheel and take it out again took 1,070 ns with a million waiting, in another run. The heap is worse at
expiring a million at once: 2 µs each, where 10,000 take 0.35 µs each and the wheel, in that other run, 0.25 µs.

A settled operation leaves dead entries in heaps: see `heap.py`. `_ledger.pyx` is the compiled twin of this file and of
those it uses.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dwell.contract.columns import CANCELLED, COMPLETED, EXPIRED, PENDING, REJECTED
from dwell.contract.order import content
from dwell.contract.reason import Reason
from dwell.contract.time_range import BEFORE_ALL
from dwell.errors import InvalidType
from dwell.ledger.admission import fault, plain_needs, plain_number, plain_text, retention
from dwell.ledger.explanation import Explanation, NeedState
from dwell.ledger.heap import TOLERATED, Heap
from dwell.ledger.key_state import KeyState
from dwell.ledger.op_ids import OpIds
from dwell.ledger.operation import Operation
from dwell.ledger.statistics import LedgerStatistics

if TYPE_CHECKING:
    from dwell.contract.columns import OutcomeName
    from dwell.ledger.row import Wait


class Engine:
    """Decides outcomes.

    The level of a key nobody waits for is remembered for `key_retention_ms` after the key's last event, an operation
    for `op_retention_ms` after its outcome; None: for ever.
    """

    def __init__(self, key_retention_ms: int | None = None, op_retention_ms: int | None = None) -> None:
        self.now_ms = BEFORE_ALL
        self.settled: list[Operation] = []  # decided since the host last took them
        self.opened = self.completed = self.expired = self.rejected = self.cancelled = self.pending = 0
        self.repeated = self.recorded = self.set_aside = 0
        self.keys: dict[str, KeyState] = {}
        self.op_ids = OpIds(retention(op_retention_ms, "op_retention_ms"))
        self._deadlines = Heap(lambda _deadline_ms, operation: operation.outcome is None)
        self._ripe: list[Operation] = []
        self._key_retention_ms = retention(key_retention_ms, "key_retention_ms")
        self._levelled: deque[tuple[int, KeyState]] = deque()  # (when to look whether it is stale, key)

    # -- time

    def at(self, now_ms: int) -> None:
        """Move on to an instant: expire what was due before it, forget what is too old."""
        if now_ms > self.now_ms:
            self.expire(now_ms - 1)
            self.now_ms = now_ms
            self._forget_keys()
            self.op_ids.forget(now_ms)

    def next_deadline_ms(self) -> int | None:
        """A time before which nothing expires; None if nothing waits."""
        return self._deadlines.entries[0][0] if self._deadlines.entries else None

    def _forget_keys(self) -> None:
        while self._levelled and self._levelled[0][0] < self.now_ms:
            _, key = self._levelled.popleft()
            if self.keys.get(key.name) is key:
                if self._is_stale(key):
                    del self.keys[key.name]
                else:
                    self._levelled.append((self.now_ms + (self._key_retention_ms or 0), key))

    def _is_stale(self, key: KeyState) -> bool:
        if self._key_retention_ms is None or key.level is None:
            return False
        return key.seen_at_ms + self._key_retention_ms < self.now_ms and key.is_idle()

    # -- operations

    def open(self, wait: Wait) -> Operation:
        """Take in an operation submitted now, or reject it. A repeat gives the operation it repeats."""
        operation, is_new = self._admit(wait)
        if is_new:
            if operation.volume is None:
                self._watch_needs(operation)
            else:
                self._watch_volume(operation)
            self._deadlines.push(operation.deadline_ms, operation)
        return operation

    def open_later(self, wait: Wait) -> None:
        """Take in an operation submitted after time has stopped: it is pending."""
        operation, is_new = self._admit(wait)
        if is_new:
            self._leave_pending(operation)

    def _admit(self, wait: Wait) -> tuple[Operation, bool]:
        """The operation, and whether it is new: otherwise it is rejected, or the one this row repeats."""
        reason = fault(*wait)
        if reason is not None:
            return self._reject(wait, reason), False
        op_id, needs, delay_ms, submitted_at_ms, quorum, volume = wait
        # Nothing is null where there is no fault.
        assert op_id is not None
        assert needs is not None
        assert delay_ms is not None
        assert submitted_at_ms is not None
        op_id = plain_text(op_id)
        first = self.op_ids.operations.get(op_id)
        if first is None:
            operation = Operation(
                self.opened,
                op_id,
                plain_needs(needs),
                plain_number(submitted_at_ms),
                plain_number(delay_ms),
                quorum,
                volume,
            )
            self.op_ids.operations[op_id] = operation
            self.opened += 1
            self.pending += 1
            return operation, True
        first_delay_ms = first.deadline_ms - first.submitted_at_ms
        if content(wait) == content(
            (op_id, first.needs, first_delay_ms, first.submitted_at_ms, first.quorum, first.volume)
        ):
            self.repeated += 1
            return first, False
        return self._reject(wait, Reason.CONTENT_DIFFERS.text(op_id)), False

    def _reject(self, wait: Wait, reason: str) -> Operation:
        operation = Operation(self.opened, wait.op_id)
        operation.finished_at_ms = self.now_ms
        if wait.op_id:
            operation.op_id = op_id = plain_text(wait.op_id)
            try:
                known = self.op_ids.find_rejected(op_id, content(wait))
                if known is not None:
                    self.repeated += 1
                    return known
                self.op_ids.add_rejected(op_id, content(wait), operation)
            except (TypeError, ValueError):
                raise InvalidType(f"needs, quorum or volume is of a wrong kind: {wait!r}") from None
        operation.outcome = REJECTED
        operation.reason = reason
        self.opened += 1
        self.rejected += 1
        self.settled.append(operation)
        return operation

    def _watch_needs(self, operation: Operation) -> None:
        for need in operation.needs:
            key = self._key(str(need.key))
            if need.level is not None and key.level is not None and key.level >= need.level:
                self._meet(operation, key)
            else:
                key.watch(operation, need.level)

    def _known_key(self, name: str) -> KeyState | None:
        """The key, unless nothing counts that is known of it."""
        key = self.keys.get(name)
        return None if key is None or self._is_stale(key) else key

    def _key(self, name: str) -> KeyState:
        key = self._known_key(name)
        if key is None:
            key = self.keys[name] = KeyState(name)
        return key

    def cancel(self, operation: Operation) -> None:
        """Settle an operation that waits."""
        if operation.outcome is None:
            self._finish(operation, CANCELLED, self.now_ms)
            self._deadlines.bury()

    # -- events

    def record(self, name: str, level: int | None) -> None:
        """Take in an event that happens now: O(1), and O(log waiting) for each need it meets."""
        self.recorded += 1
        name = plain_text(name)
        if level is None and name not in self.keys:
            return
        key = self._key(name)
        key.seen_at_ms = self.now_ms
        signalled, key.signals = key.signals, {}
        for operation in signalled:
            del operation.watched[name]
            self._meet(operation, key)
        if level is not None:
            self._rise(key, plain_number(level))
        self._drop_if_unknown(key)

    def _rise(self, key: KeyState, level: int) -> None:
        if key.level is None:
            if self._key_retention_ms is not None:
                self._levelled.append((self.now_ms + self._key_retention_ms, key))
        elif level <= key.level:
            return
        key.level = level
        key.rose_at_ms = self.now_ms
        while key.levels.has_up_to(level):
            operation = key.levels.pop()
            if operation is not None:
                del operation.watched[key.name]
                if operation.volume is None:
                    self._meet(operation, key)
                elif not operation.is_ripe:
                    self._watch_volume(operation)

    def _meet(self, operation: Operation, key: KeyState) -> None:
        operation.met[key.name] = self.now_ms
        operation.missing -= 1
        if operation.missing == 0:
            self._ripen(operation)

    def _watch_volume(self, operation: Operation) -> None:
        """Ripen an operation whose volume is reached, else give each key its share of what is missing to wait for."""
        assert operation.volume is not None
        missing = operation.volume
        levels: list[tuple[str, int]] = []
        for need in operation.needs:
            assert need.level is not None
            key = self._known_key(str(need.key))
            level = need.level if key is None or key.level is None else max(need.level, key.level)
            levels.append((str(need.key), level))
            missing -= level - need.level
        if missing <= 0:
            self._ripen(operation)
            return
        # With every key below its threshold the sum has grown by at most k * (share - 1) <= missing - 1.
        share = 1 + (missing - 1) // len(levels)
        for name, level in levels:
            if operation.watched.get(name) != level + share:
                key = self._key(name)
                if name in operation.watched:
                    key.unwatch(operation)
                key.watch(operation, level + share)

    def _ripen(self, operation: Operation) -> None:
        operation.is_ripe = True
        self._ripe.append(operation)

    # -- outcomes

    def settle(self) -> None:
        """Complete what the events of this instant made true."""
        for operation in self._ripe:
            if operation.outcome is None:
                self._finish(operation, COMPLETED, self.now_ms)
                self._deadlines.bury()
        self._ripe.clear()

    def expire(self, last_ms: int) -> None:
        """Expire what still waits with a deadline up to `last_ms`, inclusive, in the order of the deadlines."""
        while self._deadlines.has_up_to(last_ms):
            operation = self._deadlines.pop()
            if operation is not None:
                self.now_ms = max(self.now_ms, operation.deadline_ms)
                self._finish(operation, EXPIRED, operation.deadline_ms)

    def waiting(self) -> list[Operation]:
        """All that wait, in the order of their deadlines."""
        return [operation for _, _, operation in sorted(self._deadlines.entries) if operation.outcome is None]

    def suspend(self) -> None:
        """Time stops: what still waits is pending, and stays so."""
        for operation in self.waiting():
            self._leave_pending(operation)

    def _leave_pending(self, operation: Operation) -> None:
        operation.outcome = PENDING
        self.settled.append(operation)

    def _finish(self, operation: Operation, outcome: OutcomeName, finished_at_ms: int) -> None:
        if outcome == COMPLETED:
            self.completed += 1
            operation.met_by = self._completed_by(operation)
        elif outcome == EXPIRED:
            self.expired += 1
        else:
            self.cancelled += 1
        self.pending -= 1
        operation.finished_at_ms = finished_at_ms
        operation.outcome = outcome
        for name in list(operation.watched):
            key = self.keys[name]
            key.unwatch(operation)
            self._drop_if_unknown(key)
        self.op_ids.settle(operation)
        self.settled.append(operation)

    def _completed_by(self, operation: Operation) -> str:
        if operation.volume is None:
            return min(name for name, since_ms in operation.met.items() if since_ms == self.now_ms)
        # Of the keys that contribute to the volume the one whose level rose last, of several the smallest.
        contributing = [key for key, _ in self._contributions(operation)]
        last_ms = max(key.rose_at_ms for key in contributing)
        return min(key.name for key in contributing if key.rose_at_ms == last_ms)

    def _contributions(self, operation: Operation) -> list[tuple[KeyState, int]]:
        """The keys whose level lies above their need's, and by how much."""
        found = []
        for need in operation.needs:
            key = self._known_key(str(need.key))
            if key is not None and key.level is not None and need.level is not None and key.level > need.level:
                found.append((key, key.level - need.level))
        return found

    def _drop_if_unknown(self, key: KeyState) -> None:
        """A key without level and without waiters is as good as one never heard of."""
        if key.level is None and key.is_idle():
            del self.keys[key.name]

    # -- for people

    def statistics(self) -> LedgerStatistics:
        return LedgerStatistics(
            opened=self.opened,
            completed=self.completed,
            expired=self.expired,
            rejected=self.rejected,
            cancelled=self.cancelled,
            pending=self.pending,
            repeated=self.repeated,
            recorded=self.recorded,
            set_aside=self.set_aside,
            keys=len(self.keys),
            operations=len(self.op_ids.operations),
        )

    def explain(self, op_id: str) -> Explanation | None:
        """What the operation waits for and what is met, since when; None if none of that op_id waits."""
        operation = self.op_ids.operations.get(op_id)
        if operation is None or operation.outcome is not None:
            return None
        has_volume = operation.volume is not None
        contributions = self._contributions(operation) if has_volume else []
        met = {key.name: key.rose_at_ms for key, _ in contributions} if has_volume else operation.met
        needs = []
        for need in operation.needs:
            name = str(need.key)
            key = self._known_key(name)
            key_level = None if key is None else key.level
            needs.append(NeedState(key=name, level=need.level, key_level=key_level, met_since_ms=met.get(name)))
        return Explanation(
            op_id=op_id,
            submitted_at_ms=operation.submitted_at_ms,
            deadline_ms=operation.deadline_ms,
            needs=tuple(needs),
            required=None if has_volume else operation.quorum or len(operation.needs),
            volume=operation.volume,
            volume_reached=sum(excess for _, excess in contributions) if has_volume else None,
        )

    def _check(self) -> None:
        """Assert that every operation that waits is where it should be, once, and that the dead are counted and few."""
        settled = self.completed + self.expired + self.rejected + self.cancelled
        assert self.opened == settled + self.pending
        waiting = [operation for operation in self.op_ids.operations.values() if operation.outcome is None]
        assert len(waiting) == self.pending == len(self.waiting())
        expected: dict[str, int] = dict.fromkeys(self.keys, 0)
        for operation in waiting:
            assert (operation.deadline_ms, operation.number, operation) in self._deadlines.entries
            for name, level in operation.watched.items():
                key = self.keys[name]
                expected[name] += 1
                if level is None:
                    assert operation in key.signals
                else:
                    assert (level, operation.number, operation) in key.levels.entries
                    assert key.level is None or level > key.level
        for name, key in self.keys.items():
            assert len(key.signals) + len(key.levels.entries) - key.levels.dead == expected[name]
            assert key.level is not None or expected[name] > 0
            assert key.is_idle() == (expected[name] == 0)
        assert len(self._deadlines.entries) - self._deadlines.dead == self.pending
        for heap in (self._deadlines, *(key.levels for key in self.keys.values())):
            ranks = [entry[:2] for entry in heap.entries]
            assert all(ranks[(place - 1) // 2] <= ranks[place] for place in range(1, len(ranks)))
            assert 0 <= 2 * heap.dead <= len(ranks) + TOLERATED
