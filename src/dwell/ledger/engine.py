"""The decisions: operations in, events in, outcomes out. Whole milliseconds, no clock, no thread, no lock.

The live ledger and `replay` drive the same engine. At one instant they call, in the contract's order:

    at(t)            the engine's time is t; it never runs backwards
    open(wait)       for each operation submitted at t
    record(k, level) for each event at t
    settle()         what the events of the instant made true is completed
    expire(t)        what has its deadline at t and still waits is expired

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

What is settled leaves its places in heaps, lists and buckets as dead entries; where they outnumber the living ones the
place is cleaned, so garbage stays within a constant factor.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, cast

from dwell.ledger.check import content, fault
from dwell.ledger.reason import MIN_MS, Reason
from dwell.ledger.value import CANCELLED, COMPLETED, EXPIRED, PENDING, REJECTED, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwell.ledger.check import Content, SoundWait
    from dwell.ledger.value import Settled, Wait
    from dwell.ledger.wake import Waiter

# A time before every time the contract allows.
BEFORE_ALL = MIN_MS - 1

# Dead entries a place may hold whatever it holds alive: cleaning tiny places costs more than it frees.
TOLERATED = 16


class Key:
    """What is known of a key, and who waits for it."""

    __slots__ = ("dead", "level", "levels", "name", "rose_at", "seen_at", "signals")

    def __init__(self, name: str) -> None:
        self.name = name
        self.level: int | None = None
        self.rose_at = 0  # when the level last rose; meaningless without a level
        self.seen_at = BEFORE_ALL  # when the last event came
        self.levels: list[tuple[int, int, Operation]] = []  # heap of (threshold, operation number, operation)
        self.signals: list[Operation] = []
        self.dead = 0  # entries of both whose operation no longer waits for them

    def is_idle(self) -> bool:
        return len(self.levels) + len(self.signals) == self.dead


class Bucket:
    """The operations of one deadline."""

    __slots__ = ("alarm", "deadline_ms", "live", "operations")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.operations: list[Operation] = []
        self.live = 0
        self.alarm: object = None  # the host's: what will call expire(); the engine never looks at it


class Operation:
    """One operation from admission to outcome; `outcome` is None while it waits."""

    __slots__ = (
        "bucket",
        "deadline_ms",
        "keys",
        "met",
        "met_at",
        "met_by",
        "missing",
        "number",
        "outcome",
        "ripe",
        "thresholds",
        "wait",
        "waiters",
    )

    def __init__(self, wait: Wait, number: int) -> None:
        self.wait = cast("SoundWait", wait)
        self.number = number
        self.deadline_ms = 0
        self.keys: Sequence[Key] = ()  # in the order of wait.needs, while it waits
        self.missing = 0  # needs still to be met; unused with a volume
        self.met: dict[str, int] | None = None  # of several needs those met: key -> since when
        self.met_at = BEFORE_ALL  # the last time a need was met, and the smallest key met then
        self.met_by = ""
        self.thresholds: list[int | None] | None = None  # with a volume: the level each key is watched for
        self.ripe = False  # will be settled at the end of the instant
        self.bucket: Bucket | None = None
        self.outcome: Outcome | None = None
        self.waiters: list[Waiter] | None = None  # the host's: whom to wake; the engine never looks at it


class Engine:
    """Decides outcomes. `retention_ms` is how long the level of a key nobody waits for and the op_id of a settled
    operation are remembered after the last event or the outcome; None: for ever.
    """

    def __init__(self, retention_ms: int | None = None) -> None:
        self.now_ms = BEFORE_ALL
        self.settled: list[Operation] = []  # decided since the host last took them
        self.armed: list[Bucket] = []  # deadlines the host has yet to set an alarm for
        self.disarmed: list[Bucket] = []  # deadlines nobody waits for any more
        self.opened = self.completed = self.expired = self.rejected = self.cancelled = self.pending = 0
        self.repeated = self.recorded = self.set_aside = 0
        self.keys: dict[str, Key] = {}
        self.buckets: dict[int, Bucket] = {}
        self.operations: dict[str, Operation] = {}  # the first under each op_id
        self._refused: dict[str, dict[Content, Operation]] = {}  # the rejected ones of an op_id
        self._ripe: list[Operation] = []
        self._forgets = retention_ms is not None
        self._retention_ms = retention_ms or 0
        self._levelled: deque[tuple[int, Key]] = deque()  # (when to look, key)
        self._past: deque[tuple[int, Operation]] = deque()  # (when to forget, operation)

    # -- time

    def at(self, now_ms: int) -> None:
        """Move on to an instant and forget what has had its time."""
        if now_ms <= self.now_ms:
            return
        self.now_ms = now_ms
        if self._levelled or self._past:
            self._forget()

    def _forget(self) -> None:
        now = self.now_ms
        while self._levelled and self._levelled[0][0] < now:
            key = self._levelled.popleft()[1]
            if self.keys.get(key.name) is key:
                if self._is_stale(key):
                    del self.keys[key.name]
                else:
                    self._levelled.append((now + self._retention_ms, key))
        while self._past and self._past[0][0] < now:
            op = self._past.popleft()[1]
            op_id = op.wait.op_id
            if self.operations.get(op_id) is op:
                del self.operations[op_id]
            elif refused := self._refused.get(op_id):
                refused.pop(content(op.wait), None)
                if not refused:
                    del self._refused[op_id]

    def _is_stale(self, key: Key) -> bool:
        return self._forgets and key.seen_at + self._retention_ms < self.now_ms and key.is_idle()

    # -- operations

    def admit(self, wait: Wait) -> Operation:
        """Judge a row. The operation is new (no outcome, no keys yet), rejected, or the one this row repeats."""
        reason = fault(wait)
        if reason is None:
            op = Operation(wait, self.opened)
            op_id = op.wait.op_id
            first = self.operations.setdefault(op_id, op)
            if first is op:
                self.opened += 1
                self.pending += 1
                return op
            if content(first.wait) == content(wait):
                self.repeated += 1
                return first
            reason = Reason.CONTENT_DIFFERS.text(op_id)
        return self._refuse(wait, reason)

    def _refuse(self, wait: Wait, reason: str) -> Operation:
        op = Operation(wait, self.opened)
        if wait.op_id:
            refused = self._refused.setdefault(wait.op_id, {})
            known = refused.setdefault(content(wait), op)
            if known is not op:
                self.repeated += 1
                return known
            if self._forgets:
                self._past.append((self.now_ms + self._retention_ms, op))
        op.outcome = Outcome(wait.op_id, REJECTED, reason=reason)
        self.opened += 1
        self.rejected += 1
        self.settled.append(op)
        return op

    def open(self, wait: Wait) -> Operation:
        """Take in an operation submitted now. A repeat gives the operation it repeats."""
        op = self.admit(wait)
        if op.outcome is None and not op.keys:
            self._start(op)
        return op

    def _start(self, op: Operation) -> None:
        wait = op.wait
        now = self.now_ms
        needs = wait.needs
        op.deadline_ms = deadline_ms = now + wait.delay_ms
        op.keys = keys = [self._key(need.key) for need in needs]
        if wait.volume is not None:
            op.thresholds = [None] * len(keys)
            self._watch_volume(op, op.thresholds)
        else:
            op.missing = len(keys) if wait.quorum is None else wait.quorum
            for need, key in zip(needs, keys, strict=True):
                level = need.level
                if level is None:
                    key.signals.append(op)
                elif key.level is not None and key.level >= level:
                    self._meet(op, key)
                else:
                    heappush(key.levels, (level, op.number, op))
        if not op.ripe:
            bucket = self.buckets.get(deadline_ms)
            if bucket is None:
                bucket = self.buckets[deadline_ms] = Bucket(deadline_ms)
                self.armed.append(bucket)
            bucket.operations.append(op)
            bucket.live += 1
            op.bucket = bucket

    def _key(self, name: str) -> Key:
        key = self.keys.get(name)
        if key is None or (key.level is not None and self._is_stale(key)):
            # A stale key is replaced, not emptied: operations whose need it met long ago still refer to it.
            key = self.keys[name] = Key(name)
        return key

    def suspend(self) -> None:
        """Time stops: what still waits is pending, and stays so."""
        for bucket in self.buckets.values():
            for op in bucket.operations:
                if op.outcome is None:
                    self._leave_open(op)

    def open_later(self, wait: Wait) -> None:
        """Take in an operation submitted after time has stopped."""
        op = self.admit(wait)
        if op.outcome is None:
            self._leave_open(op)

    def _leave_open(self, op: Operation) -> None:
        op.outcome = Outcome(op.wait.op_id, PENDING)
        self.settled.append(op)

    def cancel(self, op: Operation) -> None:
        """Settle an operation that waits, by expiry if its deadline is over."""
        if op.outcome is None:
            if op.deadline_ms < self.now_ms:
                self._finish(op, EXPIRED, op.deadline_ms)
            else:
                self._finish(op, CANCELLED, self.now_ms)

    # -- events

    def record(self, name: str, level: int | None) -> None:
        """Take in an event that happens now: O(1), and O(log waiting) for each need it meets."""
        now = self.now_ms
        self.recorded += 1
        key = self._key(name)
        key.seen_at = now
        if key.signals:
            signals, key.signals = key.signals, []
            for op in signals:
                if op.outcome is None:
                    self._meet(op, key)
                else:
                    key.dead -= 1
        if level is not None and (key.level is None or level > key.level):
            if key.level is None and self._forgets:
                self._levelled.append((now + self._retention_ms, key))
            key.level = level
            key.rose_at = now
            levels = key.levels
            while levels and levels[0][0] <= level:
                threshold, _, op = heappop(levels)
                if op.outcome is not None:
                    key.dead -= 1
                elif op.thresholds is None:
                    self._meet(op, key)
                elif op.thresholds[i := op.keys.index(key)] != threshold:
                    key.dead -= 1
                else:
                    op.thresholds[i] = None
                    if not op.ripe:
                        self._watch_volume(op, op.thresholds)
        self._drop_if_unknown(key)

    def _meet(self, op: Operation, key: Key) -> None:
        now = self.now_ms
        if op.met_at != now:
            op.met_at = now
            op.met_by = key.name
        elif key.name < op.met_by:
            op.met_by = key.name
        op.missing -= 1
        if len(op.keys) > 1:
            if op.met is None:
                op.met = {}
            op.met[key.name] = now
        if op.missing <= 0 or op.deadline_ms < now:
            self._ripen(op)

    def _ripen(self, op: Operation) -> None:
        if not op.ripe:
            op.ripe = True
            self._ripe.append(op)

    def _watch_volume(self, op: Operation, thresholds: list[int | None]) -> None:
        """Ripen an operation whose volume is reached, else give each key its share of what is missing to wait for."""
        bases = [need.level or 0 for need in op.wait.needs]
        levels = [
            base if key.level is None or key.level < base else key.level
            for base, key in zip(bases, op.keys, strict=True)
        ]
        missing = (op.wait.volume or 0) + sum(bases) - sum(levels)
        if missing <= 0 or op.deadline_ms < self.now_ms:
            self._ripen(op)
            return
        # With every key below its threshold the sum has grown by at most k * (share - 1) <= missing - 1.
        share = 1 + (missing - 1) // len(levels)
        for i, key in enumerate(op.keys):
            threshold = levels[i] + share
            if threshold != thresholds[i]:
                if thresholds[i] is not None:
                    thresholds[i] = None
                    self._bury(key)
                thresholds[i] = threshold
                heappush(key.levels, (threshold, op.number, op))

    # -- outcomes

    def settle(self) -> None:
        """Decide what the events of this instant made true; what they came too late for is expired."""
        if self._ripe:
            ripe, self._ripe = self._ripe, []
            for op in ripe:
                if op.deadline_ms < self.now_ms:
                    self._finish(op, EXPIRED, op.deadline_ms)
                else:
                    self._finish(op, COMPLETED, self.now_ms)

    def expire(self, deadline_ms: int) -> None:
        """Expire what still waits with this deadline."""
        bucket = self.buckets.pop(deadline_ms, None)
        if bucket is not None:
            operations, bucket.operations = bucket.operations, []
            for op in operations:
                if op.outcome is None:
                    self._finish(op, EXPIRED, deadline_ms)

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
        wait = op.wait
        op.outcome = Outcome(
            wait.op_id, outcome, finished_at_ms, finished_at_ms - wait.submitted_at_ms, completed_by, None
        )
        self._leave(op)
        if self._forgets:
            self._past.append((self.now_ms + self._retention_ms, op))
        self.settled.append(op)

    def _last_to_rise(self, op: Operation) -> str:
        rises = [
            (-key.rose_at, key.name)
            for need, key in zip(op.wait.needs, op.keys, strict=True)
            if key.level is not None and key.level > (need.level or 0)
        ]
        return min(rises)[1]

    # -- places

    def _leave(self, op: Operation) -> None:
        """Give up every place the settled operation still holds."""
        thresholds = op.thresholds
        for i, key in enumerate(op.keys):
            if thresholds is not None:
                waits = thresholds[i] is not None
            elif op.met is not None:
                waits = key.name not in op.met
            else:
                waits = op.missing > 0
            if waits:
                self._bury(key)
                self._drop_if_unknown(key)
        op.keys = ()
        op.thresholds = op.met = None
        bucket, op.bucket = op.bucket, None
        if bucket is not None:
            bucket.live -= 1
            if bucket.live == 0:
                if self.buckets.pop(bucket.deadline_ms, None) is not None:
                    self.disarmed.append(bucket)
            elif len(bucket.operations) > 2 * bucket.live + TOLERATED:
                bucket.operations = [op for op in bucket.operations if op.outcome is None]

    def _drop_if_unknown(self, key: Key) -> None:
        """A key without level and without waiters is as good as one never heard of."""
        if key.level is None and key.is_idle() and self.keys.get(key.name) is key:
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
    return op.outcome is None and (op.thresholds is None or op.thresholds[op.keys.index(key)] == threshold)
