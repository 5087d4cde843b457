"""Events that came too late: whose outcome would they have changed?

They count for nothing, but with `late_events` each is shown once by itself, and once more with every operation that
would have had another outcome. For that, settled operations and their needs stay in the state for as long as they are
remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dwell.ledger.value import PENDING
from dwell.spark.stream.decide import Operations, decide
from dwell.spark.stream.meet import Keys, met_times
from dwell.spark.stream.table import KNOWN, MET, among, ints, joined, where
from dwell.spark.stream.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

# A late event, and the need it would have met (or met earlier) at `met`, if any.
LATE = pa.schema(
    [
        ("key", pa.string()),
        ("at", pa.int64()),
        ("level", pa.int64()),
        ("hash", pa.int64()),
        ("tag", pa.int64()),
        ("no", pa.int32()),
        ("met", pa.int64()),
    ]
)

# A late event, the operation that would have had another outcome, if any, and what was said of it.
SHOWN = pa.schema(
    [
        ("key", pa.string()),
        ("at", pa.int64()),
        ("level", pa.int64()),
        ("op_id", pa.string()),
        ("outcome", pa.string()),
        ("finished", pa.int64()),
        ("waited", pa.int64()),
        ("completed_by", pa.string()),
        ("was", pa.string()),
        ("was_finished", pa.int64()),
    ]
)


def concerned(
    known: Keys, needs: pa.RecordBatch, events: pa.RecordBatch, late: pa.RecordBatch, until: int
) -> pa.RecordBatch:
    """The late events as LATE rows: each by itself, and with every need it would have met.

    Which of these needs matter, their operations know, each in a shard of its own: none could say that none does.
    """
    keys = late.column("key")
    needs = joined([known.needs, where(needs, ints(needs, "submitted") < until)], known.needs.schema)
    needs = where(needs, among(needs.column("key"), keys))
    events = where(events, (ints(events, "at") < until) & among(events.column("key"), keys))
    line = Timeline(where(known.keys, among(known.keys.column("key"), keys)), events)
    waiting: dict[str, list[dict[str, Any]]] = {}
    for need, met in zip(needs.to_pylist(), met_times(line, needs).tolist(), strict=True):
        # A volume may always have more.
        waiting.setdefault(need["key"], []).append({**need, "met": NEVER if need["volume"] else met})
    rows = []
    for event in late.to_pylist():
        rows.append(event)
        rows += [
            {
                **event,
                "hash": need["hash"],
                "tag": need["tag"],
                "no": need["no"],
                "met": max(event["at"], need["submitted"]),
            }
            for need in waiting.get(event["key"], [])
            if _would_meet(event, need)
        ]
    return pa.RecordBatch.from_pylist(rows, LATE)


def _would_meet(event: dict[str, Any], need: dict[str, Any]) -> bool:
    if event["at"] > need["deadline"] or max(event["at"], need["submitted"]) >= need["met"]:
        return False
    if need["level"] is None:
        return bool(event["at"] >= need["submitted"])
    # To a volume only what is above the need's level contributes.
    return event["level"] is not None and bool(event["level"] >= need["level"] + need["volume"])


def changed(all_: Operations, late: pa.RecordBatch, until: int) -> pa.RecordBatch:
    """The late events as SHOWN rows: by themselves, and with each outcome they would have changed."""
    return pa.RecordBatch.from_pylist([row for event in late.to_pylist() for row in _shown(all_, event, until)], SHOWN)


def _shown(all_: Operations, event: dict[str, Any], until: int) -> Iterator[dict[str, Any]]:
    alone = {name: event[name] for name in ("key", "at", "level")}
    if event["hash"] is None:
        yield alone
        return
    asked = Operations(*(where(part, ints(part, "hash") == event["hash"]) for part in all_))
    asked = asked._replace(
        ops=where(asked.ops, ints(asked.ops, "submitted") < until),
        known=pa.RecordBatch.from_pylist([], KNOWN),
    )
    extra = pa.RecordBatch.from_pylist([{**event, "at": event["met"], "rose": event["at"]}], MET)
    was = _outcome(asked, event["tag"], until)
    would = _outcome(asked._replace(met=joined([asked.met, extra], MET)), event["tag"], until)
    if was is not None and would is not None and was != would:
        yield {**alone, **would, "was": was["outcome"], "was_finished": was["finished"]}


def _outcome(asked: Operations, tag: int, until: int) -> dict[str, Any] | None:
    at = decide(asked, until)
    at = at.only(at.first & (ints(at.ops, "tag") == tag))
    if not at.ops.num_rows:
        return None
    finished = at.finished()[0].as_py()
    return {
        "op_id": at.ops.column("op_id")[0].as_py(),
        "outcome": PENDING if at.instant[0] == NEVER else at.outcome()[0].as_py(),
        "finished": finished,
        "waited": None if finished is None else finished - at.ops.column("submitted")[0].as_py(),
        "completed_by": at.completed_by()[0].as_py(),
    }
