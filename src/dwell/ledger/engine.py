# cython: annotation_typing=False
"""The decisions: operations in, events in, outcomes out. Whole milliseconds, no clock, no thread, no lock.

The live ledger and `replay` drive the same engine. At one instant they call, in the contract's order:

    at(t)            the engine's time is t, never earlier; what had its deadline before t and still waits is expired
    open(wait)       for each operation submitted at t
    record(k, level) for each event at t
    settle()         what the events of the instant made true is completed
    expire(t)        what has its deadline at t and still waits is expired; the next at() would do it too

and take the decided operations from `settled`. A live ledger cannot know which events the current millisecond still
brings, so it settles after each call, in the order of the calls; replay settles once an instant. That is the only
difference between them.

A need waits at its key. Needs with a level lie in a heap by level, so an event touches only what it satisfies; signals
wait for the next event, which meets them all. A volume over k keys waits at each of them for 1/k of what is missing: as
long as no key has risen by its share, the sum cannot have been reached. So these waits are thresholds in the same heap,
and an operation is looked at O(k log volume) times, however many events come.

Worked example: volume 100 over (a, 0) and (b, 0). Missing 100, so the thresholds are a ≥ 50 and b ≥ 50 (rounded up).
Event a = 60: sum 60, missing 40, new thresholds a ≥ 80, b ≥ 20. Event b = 30: sum 90, missing 10: a ≥ 65, b ≥ 35. Event
a = 70: sum 100, completed by a.

What is settled leaves its places, at keys and among the deadlines, as dead entries: see `heap.py`.

This one file is both builds: `engine.pxd` gives the types under which it is compiled.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from dwell.errors import InvalidType
from dwell.ledger import item as rows
from dwell.ledger.check import content, fault, plain, plain_needs, span
from dwell.ledger.heap import Heap
from dwell.ledger.key import Key, make_key
from dwell.ledger.operation import Operation, make_operation
from dwell.ledger.reason import BEFORE_ALL, Reason
from dwell.ledger.register import Register
from dwell.ledger.value import CANCELLED, COMPLETED, EXPIRED, PENDING, REJECTED

if TYPE_CHECKING:
    from dwell.ledger.check import Row
    from dwell.ledger.value import Settled


# No event can bring this level.
UNREACHABLE = rows.MAX_LEVEL + 1


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
        self.keys: dict[str, Key] = {}
        self.deadlines = Heap()
        self.register = Register(op_retention_ms is not None, span(op_retention_ms, "op_retention_ms"))
        self._ripe: list[Operation] = []
        self._forgets_keys = key_retention_ms is not None
        self._key_retention_ms = span(key_retention_ms, "key_retention_ms")
        self._levelled: deque[tuple[int, Key]] = deque()  # (when to look, key)

    # -- time

    def at(self, now_ms: int) -> None:
        """Move on to an instant: expire what was due before it, forget what has had its time."""
        if now_ms > self.now_ms:
            if self.deadlines.has_up_to(now_ms - 1):
                self.expire(now_ms - 1)
            self.now_ms = now_ms
            if self._forgets_keys and self._levelled:
                self._forget_keys()
            self.register.forget(now_ms)

    def _forget_keys(self) -> None:
        while self._levelled and self._levelled[0][0] < self.now_ms:
            key = self._levelled.popleft()[1]
            if self.keys.get(key.name) is key:
                if self._is_stale(key):
                    del self.keys[key.name]
                else:
                    self._levelled.append((self.now_ms + self._key_retention_ms, key))

    def _is_stale(self, key: Key) -> bool:
        return self._forgets_keys and key.seen_at + self._key_retention_ms < self.now_ms and key.is_idle()

    # -- operations

    def open(self, row: Row) -> Operation:
        """Take in an operation submitted now, or reject it. A repeat gives the operation it repeats."""
        before = self.pending
        op = self._admit(row)
        if self.pending > before:
            self._start(op)
        return op

    def open_later(self, row: Row) -> None:
        """Take in an operation submitted after time has stopped."""
        before = self.pending
        op = self._admit(row)
        if self.pending > before:
            self._leave_open(op)

    def _admit(self, row: Row) -> Operation:
        """Judge a row. The operation is new, rejected, or the one this row repeats."""
        op_id, needs, delay_ms = rows.item(row, 0), rows.item(row, 1), rows.item(row, 2)
        submitted_at_ms, quorum, volume = rows.item(row, 3), rows.item(row, 4), rows.item(row, 5)
        reason = fault(op_id, needs, delay_ms, submitted_at_ms, quorum, volume)
        if reason is not None:
            return self._refuse(row, reason)
        op_id = plain(op_id)
        first = self.register.operations.get(op_id)
        if first is None:
            op = make_operation(op_id, self.opened)
            op.needs = plain_needs(needs)
            op.submitted_at_ms = submitted_at_ms
            op.deadline_ms = op.submitted_at_ms + delay_ms
            op.quorum = quorum
            op.volume = volume
            self.register.operations[op_id] = op
            self.opened += 1
            self.pending += 1
            return op
        delay_ms = first.deadline_ms - first.submitted_at_ms
        if content(row) == content((op_id, first.needs, delay_ms, first.submitted_at_ms, first.quorum, first.volume)):
            self.repeated += 1
            return first
        return self._refuse(row, Reason.CONTENT_DIFFERS.text(op_id))

    def _refuse(self, row: Row, reason: str) -> Operation:
        op_id = rows.item(row, 0)
        op = make_operation(plain(op_id) if op_id else op_id, self.opened)
        op.finished_at_ms = self.now_ms
        if op_id:
            try:
                known = self.register.refuse(op, content(row))
            except TypeError:
                raise InvalidType(f"needs, quorum or volume is of a wrong kind: {row!r}") from None
            if known is not op:
                self.repeated += 1
                return known
        op.outcome = REJECTED
        op.reason = reason
        self.opened += 1
        self.rejected += 1
        self.settled.append(op)
        return op

    def _start(self, op: Operation) -> None:
        if op.volume is not None:
            op.thresholds = [None] * len(op.needs)
            self._watch_volume(op)
        else:
            op.unmet = len(op.needs)
            op.missing = op.unmet if op.quorum is None else op.quorum
            for need in op.needs:
                key = self._key(rows.item(need, 0))
                asked = rows.item(need, 1)
                if asked is None:
                    key.watch_signal(op)
                    continue
                level = asked
                if key.has_level and key.level >= level:
                    self._meet(op, key)
                else:
                    key.watch_level(level, op)
        if not op.ripe:
            op.queued = True
            self.deadlines.push(op.deadline_ms, op)

    def _key(self, name: str) -> Key:
        key = self.keys.get(name)
        if key is None or (key.has_level and self._is_stale(key)):
            key = make_key(name)
            self.keys[name] = key
        return key

    def cancel(self, op: Operation) -> None:
        """Settle an operation that waits."""
        if op.outcome is None:
            self._finish(op, CANCELLED, self.now_ms)

    # -- events

    def record(self, name: str, level: int | None) -> None:
        """Take in an event that happens now: O(1), and O(log waiting) for each need it meets."""
        self.recorded += 1
        name = plain(name)
        key = self.keys.get(name)
        if level is None:
            if key is None:
                return
            if key.has_level and self._is_stale(key):
                del self.keys[name]
                return
        elif key is None or (key.has_level and self._is_stale(key)):
            key = make_key(name)
            self.keys[name] = key
        key.seen_at = self.now_ms
        if key.signal is not None:
            self._signal(key)
        if level is not None:
            self._rise(key, level)
        else:
            self._drop_if_unknown(key)

    def _signal(self, key: Key) -> None:
        first, others = key.signal, key.signals
        key.signal = key.signals = None
        key.dead = 0
        if first is not None and first.outcome is None:
            self._meet(first, key)
        if others is not None:
            for op in others:
                if op.outcome is None:
                    self._meet(op, key)

    def _rise(self, key: Key, level: int) -> None:
        if not key.has_level:
            key.has_level = True
            if self._forgets_keys:
                self._levelled.append((self.now_ms + self._key_retention_ms, key))
        elif level <= key.level:
            return
        key.level = level
        key.rose_at = self.now_ms
        levels = key.levels
        if levels is None:
            return
        while levels.has_up_to(level):
            threshold = levels.first_rank()
            op = levels.pop()
            if op.outcome is not None:
                levels.unbury()
            elif op.thresholds is None:
                self._meet(op, key)
            elif not op.awaits(key.name, threshold):
                levels.unbury()
            else:
                op.thresholds[op.place_of(key.name)] = None
                if not op.ripe:
                    self._watch_volume(op)

    def _meet(self, op: Operation, key: Key) -> None:
        now = self.now_ms
        op.missing -= 1
        op.unmet -= 1
        if op.unmet > 0 and op.unmet + 1 < len(op.needs):
            self._note_met(op, key.name)
        if op.met_at != now or op.met_by is None:
            op.met_at = now
            op.met_by = key.name
        elif key.name < op.met_by:
            op.met_by = key.name
        if op.missing <= 0:
            self._ripen(op)

    def _note_met(self, op: Operation, name: str) -> None:
        """Of the second need met, and those after it, the operation has to remember when."""
        if op.met is None:
            met: list[int | None] = [None] * len(op.needs)
            assert op.met_by is not None
            met[op.place_of(op.met_by)] = op.met_at
            op.met = met
        op.met[op.place_of(name)] = self.now_ms

    def _ripen(self, op: Operation) -> None:
        if not op.ripe:
            op.ripe = True
            self._ripe.append(op)

    def _watch_volume(self, op: Operation) -> None:
        """Ripen an operation whose volume is reached, else give each key its share of what is missing to wait for."""
        thresholds = op.thresholds
        assert thresholds is not None
        missing: Any = op.volume
        keys = []
        levels = []
        for need in op.needs:
            key = self._key(rows.item(need, 0))
            base = rows.item(need, 1)
            level: Any = base if not key.has_level or key.level < base else key.level
            keys.append(key)
            levels.append(level)
            missing -= level - base
        if missing <= 0:
            self._ripen(op)
            return
        # With every key below its threshold the sum has grown by at most k * (share - 1) <= missing - 1.
        share = 1 + (missing - 1) // len(keys)
        for i, key in enumerate(keys):
            threshold = min(levels[i] + share, UNREACHABLE)
            if threshold != thresholds[i]:
                before, thresholds[i] = thresholds[i], None
                self._unwatch(key, before)
                thresholds[i] = threshold
                if threshold < UNREACHABLE:
                    key.watch_level(threshold, op)
                else:
                    key.pins += 1

    def _unwatch(self, key: Key, threshold: int | None) -> None:
        if threshold is not None:
            if threshold < UNREACHABLE:
                key.bury_level()
            else:
                key.pins -= 1

    # -- outcomes

    def settle(self) -> None:
        """Complete what the events of this instant made true."""
        if self._ripe:
            ripe, self._ripe = self._ripe, []
            for op in ripe:
                if op.outcome is None:
                    self._finish(op, COMPLETED, self.now_ms)

    def expire(self, last_ms: int) -> None:
        """Expire what still waits with a deadline up to and with this one, in the order of the deadlines."""
        deadlines = self.deadlines
        while deadlines.has_up_to(last_ms):
            op = deadlines.pop()
            if op.outcome is not None:
                deadlines.unbury()
                continue
            op.queued = False
            if op.deadline_ms > self.now_ms:
                self.now_ms = op.deadline_ms
            self._finish(op, EXPIRED, op.deadline_ms)

    def waiting(self) -> list[Operation]:
        """All that wait, in the order of their deadlines."""
        return [op for _, op in sorted(self.deadlines.entries()) if op.outcome is None]

    def suspend(self) -> None:
        """Time stops: what still waits is pending, and stays so."""
        for op in self.waiting():
            self._leave_open(op)

    def _leave_open(self, op: Operation) -> None:
        op.outcome = PENDING
        self.settled.append(op)

    def _finish(self, op: Operation, outcome: Settled, finished_at_ms: int) -> None:
        if outcome is COMPLETED:
            self.completed += 1
            if op.thresholds is not None:
                op.met_by = self._last_to_rise(op)
        elif outcome is EXPIRED:
            self.expired += 1
        else:
            self.cancelled += 1
        self.pending -= 1
        op.finished_at_ms = finished_at_ms
        op.outcome = outcome
        if op.unmet > 0 or op.thresholds is not None:
            self._leave_keys(op)
        if op.queued:
            op.queued = False
            self.deadlines.bury(None)
        self.register.retire(op)
        self.settled.append(op)

    def _last_to_rise(self, op: Operation) -> str:
        """Of the keys that contribute to the volume the one whose level rose last, among equals the smallest."""
        last_ms = BEFORE_ALL
        last = ""
        for need in op.needs:
            name = rows.item(need, 0)
            key = self.keys.get(name)
            if key is None or not key.has_level or key.level <= rows.item(need, 1):
                continue
            if key.rose_at > last_ms or (key.rose_at == last_ms and name < last):
                last_ms = key.rose_at
                last = name
        return last

    def _leave_keys(self, op: Operation) -> None:
        """Give up the places the settled operation still holds at keys."""
        for i, need in enumerate(op.needs):
            # A key it no longer waits at may be gone, or have come back as another.
            key = self.keys.get(rows.item(need, 0))
            if key is not None:
                if op.thresholds is None:
                    if op.met_since(i) is None:
                        if rows.item(need, 1) is None:
                            key.bury_signal()
                        else:
                            key.bury_level()
                else:
                    self._unwatch(key, op.thresholds[i])
                self._drop_if_unknown(key)
        op.thresholds = op.met = None

    def _drop_if_unknown(self, key: Key) -> None:
        """A key without level and without waiters is as good as one never heard of."""
        if not key.has_level and key.is_idle():
            del self.keys[key.name]
