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

What is settled leaves its places, at keys and among the deadlines, as dead entries; where they outnumber the living
ones they are cleaned out, so garbage stays within a constant factor.

This one file is both builds: `engine.pxd` gives the types under which it is compiled.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dwell.ledger import item as rows
from dwell.ledger.check import content, fault
from dwell.ledger.operation import BEFORE_ALL, Heap, Key, Operation, is_awaited, make_key, make_operation, place_of
from dwell.ledger.reason import Reason
from dwell.ledger.value import CANCELLED, COMPLETED, EXPIRED, PENDING, REJECTED, Outcome

if TYPE_CHECKING:
    from dwell.ledger.check import Content, Row
    from dwell.ledger.value import Settled

# Half the cost of calling Outcome().
new_row = tuple.__new__


class Engine:
    """Decides outcomes.

    The level of a key nobody waits for is remembered for `key_retention_ms` after the key's last event, the op_id of a
    settled operation for `op_retention_ms` after its outcome; None: for ever.
    """

    def __init__(self, key_retention_ms: int | None = None, op_retention_ms: int | None = None) -> None:
        self.now_ms = BEFORE_ALL
        self.settled: list[Operation] = []  # decided since the host last took them
        self.opened = self.completed = self.expired = self.rejected = self.cancelled = self.pending = 0
        self.repeated = self.recorded = self.set_aside = 0
        self.keys: dict[str, Key] = {}
        self.deadlines = Heap()
        self.operations: dict[str, Operation | Row] = {}  # the first under each op_id; once settled, only its row
        self._young: dict[str, Operation] = {}  # submitted and settled in this instant: it may still be repeated
        self._refused: dict[str, dict[Content, Operation]] = {}  # the rejected ones of an op_id
        self._ripe: list[Operation] = []
        self._forgets_keys = key_retention_ms is not None
        self._key_retention_ms = key_retention_ms or 0
        self._levelled: deque[tuple[int, Key]] = deque()  # (when to look, key)
        self._forgets_operations = op_retention_ms is not None
        self._op_retention_ms = op_retention_ms or 0
        self._past: deque[Row] = deque()  # settled, to be forgotten, and when; two queues are half of one of pairs
        self._past_ms: deque[int] = deque()

    # -- time

    def at(self, now_ms: int) -> None:
        """Move on to an instant: expire what was due before it, forget what has had its time."""
        if now_ms > self.now_ms:
            if self.has_due(now_ms - 1):
                self.expire(now_ms - 1)
            self.now_ms = now_ms
            if self._young:
                self._young.clear()
            if self._levelled:
                self._forget_keys()
            if self._past:
                self._forget_operations()

    def _forget_keys(self) -> None:
        while self._levelled and self._levelled[0][0] < self.now_ms:
            key = self._levelled.popleft()[1]
            if self.keys.get(key.name) is key:
                if self._is_stale(key):
                    del self.keys[key.name]
                else:
                    self._levelled.append((self.now_ms + self._key_retention_ms, key))

    def _forget_operations(self) -> None:
        while self._past and self._past_ms[0] < self.now_ms:
            self._past_ms.popleft()
            past = self._past.popleft()
            op_id = rows.item(past, 0)
            if self.operations.get(op_id) is past:
                del self.operations[op_id]
            else:
                refused = self._refused[op_id]
                del refused[content(past)]
                if not refused:
                    del self._refused[op_id]

    def _forget_later(self, row: Row) -> None:
        if self._forgets_operations:
            self._past.append(row)
            self._past_ms.append(self.now_ms + self._op_retention_ms)

    def _is_stale(self, key: Key) -> bool:
        return self._forgets_keys and key.seen_at + self._key_retention_ms < self.now_ms and key.is_idle()

    # -- operations

    def open(self, row: Row) -> Operation | None:
        """Take in an operation submitted now, or reject it. A repeat gives the operation it repeats; None if that one
        was settled before this instant.
        """
        op = self._admit(row)
        if op is not None and op.outcome is None and op.deadline_ms == BEFORE_ALL:
            self._start(op)
        return op

    def _admit(self, row: Row) -> Operation | None:
        """Judge a row. The operation is new (no outcome, no deadline yet), rejected, or the one this row repeats."""
        op_id, needs, submitted_at_ms = rows.item(row, 0), rows.item(row, 1), rows.item(row, 3)
        reason = fault(op_id, needs, rows.item(row, 2), submitted_at_ms, rows.item(row, 4), rows.item(row, 5))
        if reason is not None:
            return self._refuse(row, reason)
        first = self.operations.get(op_id)
        if first is None:
            op = make_operation(row, op_id, needs, submitted_at_ms, self.opened)
            self.operations[op_id] = op
            self.opened += 1
            self.pending += 1
            return op
        if content(row) == content(first.row if isinstance(first, Operation) else first):
            self.repeated += 1
            return first if isinstance(first, Operation) else self._young.get(op_id)
        return self._refuse(row, Reason.CONTENT_DIFFERS.text(op_id))

    def _refuse(self, row: Row, reason: str) -> Operation:
        op_id = rows.item(row, 0)
        op = make_operation(row, op_id, (), BEFORE_ALL, self.opened)
        if op_id:
            refused = self._refused.setdefault(op_id, {})
            known = refused.setdefault(content(row), op)
            if known is not op:
                self.repeated += 1
                return known
            self._forget_later(row)
        op.outcome = Outcome(op_id, REJECTED, reason=reason)
        self.opened += 1
        self.rejected += 1
        self.settled.append(op)
        return op

    def _start(self, op: Operation) -> None:
        op.deadline_ms = self.now_ms + rows.item(op.row, 2)
        if rows.item(op.row, 5) is not None:
            op.thresholds = [None] * len(op.needs)
            self._watch_volume(op)
        else:
            quorum = rows.item(op.row, 4)
            op.unmet = len(op.needs)
            op.missing = op.unmet if quorum is None else quorum
            for need in op.needs:
                level = rows.item(need, 1)
                key = self._key(rows.item(need, 0))
                if level is not None and key.level is not None and key.level >= level:
                    self._meet(op, key)
                else:
                    key.watch(level, op)
        if not op.ripe:
            op.queued = True
            self.deadlines.push(op.deadline_ms, op)

    def _key(self, name: str) -> Key:
        key = self.keys.get(name)
        if key is None or (key.level is not None and self._is_stale(key)):
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
        if level is None and name not in self.keys:
            return
        key = self._key(name)
        key.seen_at = self.now_ms
        if key.signal is not None:
            self._signal(key)
        if level is not None and (key.level is None or level > key.level):
            self._rise(key, level)
        elif key.level is None:
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
        if key.level is None and self._forgets_keys:
            self._levelled.append((self.now_ms + self._key_retention_ms, key))
        key.level = level
        key.rose_at = self.now_ms
        levels = key.levels
        if levels is None:
            return
        while levels.ranks and levels.ranks[0] <= level:
            threshold = levels.ranks[0]
            op = levels.pop()
            if op.outcome is not None:
                levels.dead -= 1
            elif op.thresholds is None:
                self._meet(op, key)
            elif not is_awaited(op, key.name, threshold):
                levels.dead -= 1
            else:
                op.thresholds[place_of(op, key.name)] = None
                if not op.ripe:
                    self._watch_volume(op)

    def _meet(self, op: Operation, key: Key) -> None:
        now = self.now_ms
        if op.met_at != now:
            op.met_at = now
            op.met_by = key.name
        elif key.name < op.met_by:
            op.met_by = key.name
        op.missing -= 1
        op.unmet -= 1
        if op.unmet > 0:
            if op.met is None:
                op.met = [None] * len(op.needs)
            op.met[place_of(op, key.name)] = now
        if op.missing <= 0:
            self._ripen(op)

    def _ripen(self, op: Operation) -> None:
        if not op.ripe:
            op.ripe = True
            self._ripe.append(op)

    def _watch_volume(self, op: Operation) -> None:
        """Ripen an operation whose volume is reached, else give each key its share of what is missing to wait for."""
        thresholds = op.thresholds
        assert thresholds is not None
        missing = rows.item(op.row, 5)
        keys = []
        levels = []
        for need in op.needs:
            key = self._key(rows.item(need, 0))
            base = rows.item(need, 1)
            level = base if key.level is None or key.level < base else key.level
            keys.append(key)
            levels.append(level)
            missing -= level - base
        if missing <= 0:
            self._ripen(op)
            return
        # With every key below its threshold the sum has grown by at most k * (share - 1) <= missing - 1.
        share = 1 + (missing - 1) // len(keys)
        for i, key in enumerate(keys):
            threshold = levels[i] + share
            if threshold != thresholds[i]:
                if thresholds[i] is not None:
                    thresholds[i] = None
                    key.bury(False)
                thresholds[i] = threshold
                key.watch(threshold, op)

    # -- outcomes

    def settle(self) -> None:
        """Complete what the events of this instant made true."""
        if self._ripe:
            ripe, self._ripe = self._ripe, []
            for op in ripe:
                self._finish(op, COMPLETED, self.now_ms)

    def expire(self, last_ms: int) -> None:
        """Expire what still waits with a deadline up to and with this one, in the order of the deadlines."""
        deadlines = self.deadlines
        while deadlines.ranks and deadlines.ranks[0] <= last_ms:
            op = deadlines.pop()
            if op.outcome is not None:
                deadlines.dead -= 1
                continue
            op.queued = False
            if op.deadline_ms > self.now_ms:
                self.now_ms = op.deadline_ms
            self._finish(op, EXPIRED, op.deadline_ms)

    def has_due(self, last_ms: int) -> bool:
        """Whether there may be something to expire: what was settled counts until it is cleaned out."""
        ranks = self.deadlines.ranks
        return len(ranks) > 0 and ranks[0] <= last_ms

    def waiting(self) -> list[Operation]:
        """All that wait."""
        return [op for op in self.deadlines.operations if op.outcome is None]

    def suspend(self) -> None:
        """Time stops: what still waits is pending, and stays so."""
        for op in self.waiting():
            self._leave_open(op)

    def open_later(self, row: Row) -> None:
        """Take in an operation submitted after time has stopped."""
        op = self._admit(row)
        if op is not None and op.outcome is None:
            self._leave_open(op)

    def _leave_open(self, op: Operation) -> None:
        op.outcome = Outcome(op.op_id, PENDING)
        self.settled.append(op)

    def _finish(self, op: Operation, outcome: Settled, finished_at_ms: int) -> None:
        completed_by = None
        if outcome is COMPLETED:
            self.completed += 1
            completed_by = op.met_by if op.thresholds is None else self._last_to_rise(op)
        elif outcome is EXPIRED:
            self.expired += 1
        else:
            self.cancelled += 1
        self.pending -= 1
        waited_ms = finished_at_ms - op.submitted_at_ms
        op.outcome = new_row(Outcome, (op.op_id, outcome, finished_at_ms, waited_ms, completed_by, None))
        self._leave(op)
        self.operations[op.op_id] = op.row
        self._forget_later(op.row)
        if op.submitted_at_ms == self.now_ms:
            self._young[op.op_id] = op
        self.settled.append(op)

    def _last_to_rise(self, op: Operation) -> str:
        """Of the keys that contribute to the volume the one whose level rose last, among equals the smallest."""
        last_ms = BEFORE_ALL
        last = ""
        for need in op.needs:
            name = rows.item(need, 0)
            key = self.keys.get(name)
            if key is None or key.level is None or key.level <= rows.item(need, 1):
                continue
            if key.rose_at > last_ms or (key.rose_at == last_ms and name < last):
                last_ms = key.rose_at
                last = name
        return last

    # -- places

    def _leave(self, op: Operation) -> None:
        """Give up every place the settled operation still holds."""
        if op.unmet > 0 or op.thresholds is not None:
            places = op.met if op.thresholds is None else op.thresholds
            for i, need in enumerate(op.needs):
                # A key it no longer waits at may be gone, or have come back as another.
                key = self.keys.get(rows.item(need, 0))
                if key is not None:
                    if places is None or (places[i] is None) == (op.thresholds is None):
                        key.bury(rows.item(need, 1) is None)
                    if key.level is None:
                        self._drop_if_unknown(key)
        op.thresholds = op.met = None
        if op.queued:
            op.queued = False
            self.deadlines.bury(None)

    def _drop_if_unknown(self, key: Key) -> None:
        """A key without level and without waiters is as good as one never heard of."""
        if key.is_idle() and self.keys.get(key.name) is key:
            del self.keys[key.name]
