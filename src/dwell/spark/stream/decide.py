"""Stage 2, by operation: which operations are settled between two watermarks.

All that is decided here is decided once and for all: every row that could matter, up to the watermark, is there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.contract.columns import COMPLETED, EXPIRED, REJECTED
from dwell.contract.reason import Reason
from dwell.spark.stream.meet import distinct, repeated, unrepeated
from dwell.spark.stream.table import KNOWN, MET, Ints, Mask, among, ints, joined, present, where
from dwell.spark.stream.timeline import NEVER


class Operations(NamedTuple):
    """What is known of some operations up to a moment: the open ones, which of their needs are met, and the settled
    ones that are remembered."""

    ops: pa.RecordBatch
    met: pa.RecordBatch
    known: pa.RecordBatch

    def and_then(self, ops: pa.RecordBatch, met: pa.RecordBatch, known: pa.RecordBatch) -> Operations:
        return Operations(
            joined([self.ops, ops], self.ops.schema),
            joined([self.met, met], MET),
            joined([self.known, known], KNOWN),
        )


class Decisions(NamedTuple):
    """One entry for each operation asked about.

    `instant` is when it got its outcome and `done` when its condition came true, by its need number `by`; NEVER if not
    so far. `first` is false if its op_id belongs to another.
    """

    ops: pa.RecordBatch
    first: Mask
    done: Ints
    by: Ints
    instant: Ints

    def only(self, mask: Mask) -> Decisions:
        ops, first, done, by, instant = self
        return Decisions(where(ops, mask), first[mask], done[mask], by[mask], instant[mask])

    def take(self, rows: Ints) -> Decisions:
        ops, first, done, by, instant = self
        return Decisions(ops.take(pa.array(rows)), first[rows], done[rows], by[rows], instant[rows])

    def outcome(self) -> pa.Array:
        kind = np.where(~self.first, REJECTED, np.where(self.done != NEVER, COMPLETED, EXPIRED))
        return pa.array(kind.tolist(), pa.string())

    def finished(self) -> pa.Array:
        return pa.array(self.instant, mask=~self.first | (self.instant == NEVER))

    def completed_by(self) -> pa.Array:
        keys = pc.list_flatten(self.ops.column("needs")).field("key")
        counts = pc.list_value_length(self.ops.column("needs")).to_numpy(zero_copy_only=False)
        place = np.cumsum(counts) - counts + self.by
        return keys.take(pa.array(place, pa.int64(), mask=self.done == NEVER))

    def reason(self) -> pa.Array:
        text = pc.binary_join_element_wise(Reason.CONTENT_DIFFERS.value, self.ops.column("op_id"), ": ")
        return pc.if_else(pa.array(self.first), pa.scalar(None, pa.string()), text)


def deadlines(ops: pa.RecordBatch) -> Ints:
    return ints(ops, "submitted") + ints(ops, "delay")


def stirred(all_: Operations, since: int, until: int) -> Operations:
    """What must be looked at to decide [since, until): new operations, due ones, and those with news."""
    due = deadlines(all_.ops)
    asked = (ints(all_.ops, "submitted") >= since) | ((due >= since) & (due < until))
    news = all_.met.column("hash").filter(pa.array(ints(all_.met, "at") >= since))
    hashes = pa.concat_arrays([all_.ops.column("hash").filter(pa.array(asked)), news])
    return Operations(*(where(part, among(part.column("hash"), hashes)) for part in all_))


def decide(asked: Operations, until: int) -> Decisions:
    """The state of each operation at `until`; all operations under one op_id must be among the ones asked about."""
    ops = unrepeated(asked.ops, "hash", "tag")
    ops = where(ops, ~alike(ops, asked.known))
    first = _first(ops, asked.known)
    done, by = _done(ops, asked.met)
    done = np.where(first, done, NEVER)
    due = deadlines(ops)
    expired = first & (done == NEVER) & (due < until)
    instant = np.where(done != NEVER, done, np.where(expired, due, NEVER))
    return Decisions(ops, first, done, by, np.where(first, instant, ints(ops, "submitted")))


def alike(ops: pa.RecordBatch, others: pa.RecordBatch) -> Mask:
    """Which operations are among the others, by op_id and content."""
    found = among(ops.column("hash"), others.column("hash")).copy()
    places = np.flatnonzero(found)
    if len(places):
        others = where(others, among(others.column("hash"), ops.column("hash")))
        there = set(zip(ints(others, "hash").tolist(), ints(others, "tag").tolist(), strict=True))
        here = zip(ints(ops, "hash")[places].tolist(), ints(ops, "tag")[places].tolist(), strict=True)
        found[places] = [pair in there for pair in here]
    return found


def _first(ops: pa.RecordBatch, known: pa.RecordBatch) -> Mask:
    """Which own their op_id: no other content under it came first."""
    owners = known.column("hash").filter(known.column("owner"))
    first = ~among(ops.column("hash"), owners)
    rivals = repeated(ints(ops, "hash"))
    best: dict[int, tuple[tuple[object, ...], int]] = {}
    for place, row in zip(rivals.tolist(), ops.take(pa.array(rivals)).to_pylist(), strict=True):
        entry = _content(row), place
        best[row["hash"]] = min(best.get(row["hash"], entry), entry)
    first[rivals] = False
    winners = [place for _, place in best.values()]
    first[winners] = ~among(ops.column("hash").take(pa.array(winners, pa.int64())), owners)
    return first


def _content(row: dict[str, object]) -> tuple[object, ...]:
    """Orders the contents under one op_id as the contract does."""
    needs: list[dict[str, object]] = row["needs"]  # type: ignore[assignment]
    pairs = [(need["key"], *_null_first(need["level"])) for need in needs]
    return row["submitted"], row["delay"], pairs, *_null_first(row["quorum"]), *_null_first(row["volume"])


def _null_first(value: object) -> tuple[bool, object]:
    return (value is not None, 0 if value is None else value)


def _done(ops: pa.RecordBatch, met: pa.RecordBatch) -> tuple[Ints, Ints]:
    """When each condition came true, or NEVER, and by which of the needs."""
    done, by = np.full(ops.num_rows, NEVER), np.zeros(ops.num_rows, np.int64)
    row = rows_of(ops, met)
    met, row = where(met, row >= 0), row[row >= 0]
    no, at = ints(met, "no"), ints(met, "at")
    volume = present(ops, "volume")[row]
    _done_by_count(ops, row[~volume], no[~volume], at[~volume], done, by)
    if volume.any():
        _done_by_volume(ops, row[volume], where(met, volume), done, by)
    return done, by


def rows_of(ops: pa.RecordBatch, met: pa.RecordBatch) -> Ints:
    """The row in `ops` each MET row belongs to, or -1. Several contents under one hash are told apart by their tag."""
    asked = np.flatnonzero(among(ops.column("hash"), met.column("hash")))
    hashes, tags = ints(ops, "hash")[asked], ints(ops, "tag")[asked]
    order = np.lexsort((tags, hashes))
    hashes, tags = hashes[order], tags[order]
    start, end = (np.searchsorted(hashes, ints(met, "hash"), side) for side in ("left", "right"))
    tag, stop = ints(met, "tag"), end
    # A binary search among the tags under each hash, all at once: nearly always it is one tag, and one step.
    for _ in range(int((end - start).max(initial=0)).bit_length()):
        middle = (start + end) // 2
        below = (start < end) & (tags[np.minimum(middle, len(tags) - 1)] < tag)
        start, end = np.where(below, middle + 1, start), np.where(below, end, middle)
    found = np.full(met.num_rows, -1)
    there = np.flatnonzero(start < stop)
    there = there[tags[start[there]] == tag[there]]
    found[there] = asked[order[start[there]]]
    return found


def _done_by_count(ops: pa.RecordBatch, row: Ints, no: Ints, at: Ints, done: Ints, by: Ints) -> None:
    order = np.lexsort((at, no, row))
    row, no, at = row[order], no[order], at[order]
    once = distinct(row, no)
    row, no, at = row[once], no[once], at[once]
    order = np.lexsort((no, at, row))
    row, no, at = row[order], no[order], at[order]
    # The quorum-th need of each operation to be met, and the first of those met at the same instant.
    begin = np.searchsorted(row, row)
    count = pc.list_value_length(ops.column("needs")).to_numpy(zero_copy_only=False).astype(np.int64)
    quorum = np.where(present(ops, "quorum"), ints(ops, "quorum"), count)
    last = np.flatnonzero(np.arange(len(row)) - begin == quorum[row] - 1)
    new = np.ones(len(row), np.bool_)
    new[1:] = (row[1:] != row[:-1]) | (at[1:] != at[:-1])
    instant = np.maximum.accumulate(np.where(new, np.arange(len(row)), 0))
    done[row[last]], by[row[last]] = at[last], no[instant[last]]


def _done_by_volume(ops: pa.RecordBatch, row: Ints, met: pa.RecordBatch, done: Ints, by: Ints) -> None:
    """One operation after the other, in integers that do not wrap."""
    rises = sorted(
        zip(
            row.tolist(),
            *(met.column(name).to_pylist() for name in ("at", "no", "level", "rose")),
            strict=True,
        )
    )
    at_row, levels, last_rose, total = -1, dict[int, int](), dict[int, int](), 0
    for entry, (number, at, no, level, rose) in enumerate(rises):
        if number != at_row:
            at_row, levels, last_rose, total = number, {}, {}, 0
            bases = ops.column("needs")[number].as_py()
            wanted = ops.column("volume")[number].as_py()
        if done[number] != NEVER:
            continue
        before = levels.get(no, bases[no]["level"])
        if level > before:
            total += level - before
            levels[no], last_rose[no] = level, rose
        following = rises[entry + 1] if entry + 1 < len(rises) else None
        if following is not None and following[:2] == (number, at):
            continue
        if total >= wanted:
            done[number] = at
            by[number] = min(last_rose, key=lambda no: (-last_rose[no], no))


def fold(all_: Operations, until: int, remember_ms: int, *, linger: bool = False) -> Operations:
    """What is known up to `until`.

    Settled operations become a few bytes as long as they are remembered, or stay whole if they shall linger. One
    that was turned away never stays whole: when the owner of its op_id is forgotten, it would take its place.
    """
    at = decide(all_, until)
    open_ = at.first & (at.instant >= until - remember_ms) if linger else at.instant == NEVER
    ops = where(at.ops, open_)
    met = where(all_.met, rows_of(ops, all_.met) >= 0)
    if not linger:
        met = _gist(ops, met)
    settled = where(at.ops, ~open_)
    newly = pa.RecordBatch.from_arrays(
        [
            settled.column("hash"),
            settled.column("tag"),
            pa.array(at.instant[~open_] + remember_ms),
            pa.array(at.first[~open_]),
        ],
        schema=KNOWN,
    )
    known = joined([all_.known, newly], KNOWN)
    return Operations(ops, met, where(known, ints(known, "until") >= until))


def _gist(ops: pa.RecordBatch, met: pa.RecordBatch) -> pa.RecordBatch:
    """Of open operations, what still matters: when a need was met, and of a volume how far its key has come since."""
    row, no, level = rows_of(ops, met), ints(met, "no"), ints(met, "level")
    # Of what was said again, or reached again by a key that had been forgotten, the first counts.
    order = np.lexsort((-ints(met, "at"), level, no, row))
    row, no = row[order], no[order]
    change = (row[1:] != row[:-1]) | (no[1:] != no[:-1])
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = change
    begins = np.ones(len(order), np.bool_)
    begins[1:] = change
    return met.take(pa.array(np.sort(order[ends | (begins & present(ops, "volume")[row])])))
