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
lie in a list that the next event empties. A volume over k keys waits at each of them for 1/k of what is missing: as
long as no key has risen by its share, the sum cannot have been reached. So these waits are thresholds in the same heap,
and an operation is looked at O(k log volume) times, however many events come.

Worked example: volume 100 over (a, 0) and (b, 0). Missing 100, so the thresholds are a ≥ 50 and b ≥ 50 (rounded up).
Event a = 60: sum 60, missing 40, new thresholds a ≥ 80, b ≥ 20. Event b = 30: sum 90, missing 10: a ≥ 65, b ≥ 35. Event
a = 70: sum 100, completed by a.

What is settled leaves its places at keys as dead entries; where they outnumber the living ones the key is cleaned, so
garbage stays within a constant factor.

This one file is both builds: `engine.pxd` gives the types under which it is compiled.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from dwell.ledger.check import content, fault
from dwell.ledger.operation import BEFORE_ALL, Bucket, Key, Operation
from dwell.ledger.reason import Reason
from dwell.ledger.value import CANCELLED, COMPLETED, EXPIRED, PENDING, REJECTED, Outcome

if TYPE_CHECKING:
    from dwell.ledger.check import Content, Row
    from dwell.ledger.value import Settled

# Dead entries a key may hold whatever it holds alive: cleaning tiny places costs more than it frees.
TOLERATED = 16

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
        self.buckets: dict[int, Bucket] = {}
        self.deadlines: list[int] = []  # heap of the buckets' deadlines, and of some that are no more
        self.operations: dict[str, Operation | Row] = {}  # the first under each op_id; once settled, only its row
        self._young: dict[str, Operation] = {}  # submitted and settled in this instant: it may still be repeated
        self._refused: dict[str, dict[Content, Operation]] = {}  # the rejected ones of an op_id
        self._ripe: list[Operation] = []
        self._forgets_keys = key_retention_ms is not None
        self._key_retention_ms = key_retention_ms or 0
        self._levelled: deque[tuple[int, Key]] = deque()  # (when to look, key)
        self._forgets_operations = op_retention_ms is not None
        self._op_retention_ms = op_retention_ms or 0
        self._past: deque[tuple[int, str, Row]] = deque()  # (when to forget, op_id, row)

    # -- time

    def at(self, now_ms: int) -> None:
        """Move on to an instant: expire what was due before it, forget what has had its time."""
        if now_ms > self.now_ms:
            if self.deadlines and self.deadlines[0] < now_ms:
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
        while self._past and self._past[0][0] < self.now_ms:
            _, op_id, past = self._past.popleft()
            if self.operations.get(op_id) is past:
                del self.operations[op_id]
            else:
                refused = self._refused[op_id]
                del refused[content(past)]
                if not refused:
                    del self._refused[op_id]

    def _is_stale(self, key: Key) -> bool:
        return self._forgets_keys and key.seen_at + self._key_retention_ms < self.now_ms and key.is_idle()

    # -- operations

    def open(self, row: Row) -> Operation | None:
        """Take in an operation submitted now, or reject it. A repeat gives the operation it repeats; None if that one
        was settled before this instant.
        """
        op = self._admit(row)
        if op is not None and op.outcome is None and op.keys is None:
            self._start(op)
        return op

    def _admit(self, row: Row) -> Operation | None:
        """Judge a row. The operation is new (no outcome, no keys yet), rejected, or the one this row repeats."""
        op_id, needs, delay_ms, submitted_at_ms, quorum, volume = row
        reason = fault(op_id, needs, delay_ms, submitted_at_ms, quorum, volume)
        if reason is not None or op_id is None:
            return self._refuse(row, reason or "")
        first = self.operations.get(op_id)
        if first is None:
            op = Operation(row, op_id, needs, submitted_at_ms, self.opened)  # type: ignore[arg-type]
            self.operations[op_id] = op
            self.opened += 1
            self.pending += 1
            return op
        if content(row) == content(first.row if isinstance(first, Operation) else first):
            self.repeated += 1
            return first if isinstance(first, Operation) else self._young.get(op_id)
        return self._refuse(row, Reason.CONTENT_DIFFERS.text(op_id))

    def _refuse(self, row: Row, reason: str) -> Operation:
        op_id = row[0]
        op = Operation(row, op_id, (), BEFORE_ALL, self.opened)  # type: ignore[arg-type]
        if op_id:
            refused = self._refused.setdefault(op_id, {})
            known = refused.setdefault(content(row), op)
            if known is not op:
                self.repeated += 1
                return known
            if self._forgets_operations:
                self._past.append((self.now_ms + self._op_retention_ms, op_id, row))
        op.outcome = Outcome(op_id, REJECTED, reason=reason)
        self.opened += 1
        self.rejected += 1
        self.settled.append(op)
        return op

    def _start(self, op: Operation) -> None:
        _, _, delay_ms, _, quorum, volume = op.row
        op.deadline_ms = self.now_ms + delay_ms  # type: ignore[operator]
        op.keys = keys = []
        if volume is not None:
            op.volume = volume
            for name, _ in op.needs:
                keys.append(self._key(name))
            op.thresholds = [None] * len(keys)
            self._watch_volume(op)
        else:
            op.unmet = len(op.needs)
            op.missing = op.unmet if quorum is None else quorum
            for name, level in op.needs:
                key = self._key(name)
                keys.append(key)
                if level is None:
                    key.signals.append(op)
                elif key.level is not None and key.level >= level:
                    self._meet(op, key)
                else:
                    heappush(key.levels, (level, op.number, op))
        if not op.ripe:
            self._enqueue(op)

    def _key(self, name: str) -> Key:
        key = self.keys.get(name)
        if key is None or (key.level is not None and self._is_stale(key)):
            # A stale key is replaced, not emptied: operations whose need it met long ago still refer to it.
            key = Key(name)
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
        key = self._key(name)
        key.seen_at = self.now_ms
        if key.signals:
            signals, key.signals = key.signals, []
            for op in signals:
                if op.outcome is None:
                    self._meet(op, key)
                else:
                    key.dead -= 1
        if level is not None and (key.level is None or level > key.level):
            self._rise(key, level)
        elif key.level is None:
            self._drop_if_unknown(key)

    def _rise(self, key: Key, level: int) -> None:
        if key.level is None and self._forgets_keys:
            self._levelled.append((self.now_ms + self._key_retention_ms, key))
        key.level = level
        key.rose_at = self.now_ms
        levels = key.levels
        while levels and levels[0][0] <= level:
            threshold, _, op = heappop(levels)
            if op.outcome is not None:
                key.dead -= 1
            elif op.thresholds is None:
                self._meet(op, key)
            elif not _is_threshold(op, key, threshold):
                key.dead -= 1
            else:
                op.thresholds[_place(op, key)] = None
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
                op.met = {}
            op.met[key.name] = now
        if op.missing <= 0:
            self._ripen(op)

    def _ripen(self, op: Operation) -> None:
        if not op.ripe:
            op.ripe = True
            self._ripe.append(op)

    def _watch_volume(self, op: Operation) -> None:
        """Ripen an operation whose volume is reached, else give each key its share of what is missing to wait for."""
        keys, thresholds = op.keys, op.thresholds
        assert keys is not None
        assert thresholds is not None
        missing = op.volume
        levels = []
        for i, key in enumerate(keys):
            base = op.needs[i][1] or 0
            level = base if key.level is None or key.level < base else key.level
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
                    self._bury(key)
                thresholds[i] = threshold
                heappush(key.levels, (threshold, op.number, op))

    # -- outcomes

    def settle(self) -> None:
        """Complete what the events of this instant made true."""
        if self._ripe:
            ripe, self._ripe = self._ripe, []
            for op in ripe:
                self._finish(op, COMPLETED, self.now_ms)

    def expire(self, last_ms: int) -> None:
        """Expire what still waits with a deadline up to and with this one, in the order of the deadlines."""
        while self.deadlines and self.deadlines[0] <= last_ms:
            deadline_ms = heappop(self.deadlines)
            if deadline_ms > self.now_ms:
                self.now_ms = deadline_ms
            bucket = self.buckets.get(deadline_ms)
            while bucket is not None and bucket.head is not None:
                self._finish(bucket.head, EXPIRED, deadline_ms)

    def suspend(self) -> None:
        """Time stops: what still waits is pending, and stays so."""
        for bucket in self.buckets.values():
            op = bucket.head
            while op is not None:
                self._leave_open(op)
                op = op.next

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
        if self._forgets_operations:
            self._past.append((self.now_ms + self._op_retention_ms, op.op_id, op.row))
        if op.submitted_at_ms == self.now_ms:
            self._young[op.op_id] = op
        self.settled.append(op)

    def _last_to_rise(self, op: Operation) -> str:
        """Of the keys that contribute to the volume the one whose level rose last, among equals the smallest."""
        last_ms = BEFORE_ALL
        last = ""
        for name, level in op.needs:
            # By name: a key without level that op met at its submission may have been dropped and come back since.
            key = self.keys.get(name)
            if key is None or key.level is None or key.level <= (level or 0):
                continue
            if key.rose_at > last_ms or (key.rose_at == last_ms and name < last):
                last_ms = key.rose_at
                last = name
        return last

    # -- places

    def _leave(self, op: Operation) -> None:
        """Give up every place the settled operation still holds."""
        if op.unmet > 0 or op.thresholds is not None:
            for i, key in enumerate(op.keys or ()):
                if op.thresholds is not None:
                    waits = op.thresholds[i] is not None
                else:
                    waits = op.met is None or key.name not in op.met
                if waits:
                    self._bury(key)
                if key.level is None:
                    self._drop_if_unknown(key)
        op.keys = op.thresholds = op.met = None
        if op.bucket is not None:
            self._dequeue(op, op.bucket)

    def _enqueue(self, op: Operation) -> None:
        bucket = self.buckets.get(op.deadline_ms)
        if bucket is None:
            bucket = Bucket(op.deadline_ms)
            self.buckets[op.deadline_ms] = bucket
            heappush(self.deadlines, op.deadline_ms)
        op.bucket = bucket
        op.next = bucket.head
        if op.next is not None:
            op.next.prev = op
        bucket.head = op

    def _dequeue(self, op: Operation, bucket: Bucket) -> None:
        if op.prev is None:
            bucket.head = op.next
        else:
            op.prev.next = op.next
        if op.next is not None:
            op.next.prev = op.prev
        op.bucket = op.prev = op.next = None
        if bucket.head is None:
            del self.buckets[bucket.deadline_ms]
            # Deadlines that nobody waits for any more would otherwise stay until their time.
            if len(self.deadlines) > 2 * len(self.buckets) + TOLERATED:
                self.deadlines[:] = self.buckets
                heapify(self.deadlines)

    def _drop_if_unknown(self, key: Key) -> None:
        """A key without level and without waiters is as good as one never heard of."""
        if key.is_idle() and self.keys.get(key.name) is key:
            del self.keys[key.name]

    def _bury(self, key: Key) -> None:
        """Count one entry of the key as dead and clean up when the dead outnumber the living."""
        key.dead += 1
        if 2 * key.dead > len(key.levels) + len(key.signals) + TOLERATED:
            key.levels[:] = [entry for entry in key.levels if _is_awaited(entry, key)]
            heapify(key.levels)
            key.signals = [op for op in key.signals if op.outcome is None]
            key.dead = 0


def _is_awaited(entry: tuple[int, int, Operation], key: Key) -> bool:
    threshold, _, op = entry
    return op.outcome is None and (op.thresholds is None or _is_threshold(op, key, threshold))


def _is_threshold(op: Operation, key: Key, threshold: int) -> bool:
    return op.thresholds is not None and op.thresholds[_place(op, key)] == threshold


def _place(op: Operation, key: Key) -> int:
    assert op.keys is not None
    return op.keys.index(key)
