"""One shard of stage 1 for one micro-batch: rows in, needs met out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dwell.spark.stream.clock import Beat, Clock
from dwell.spark.stream.journal import Journal, is_long, opened
from dwell.spark.stream.meet import Keys, fold, meet
from dwell.spark.stream.table import EVENT, KEY, MET, NEED, empty, ints, joined, where
from dwell.spark.stream.timeline import NEVER

if TYPE_CHECKING:
    import pyarrow as pa

    from dwell.spark.stream.terms import Terms

SNAPSHOT = {"keys": KEY, "needs": NEED}
LOG = {"events": EVENT, "needs": NEED}


@dataclass(slots=True)
class KeyRows:
    """What a micro-batch has for one shard."""

    beat: Beat = field(default_factory=Beat)
    needs: list[pa.RecordBatch] = field(default_factory=list)
    events: list[pa.RecordBatch] = field(default_factory=list)


class KeyNews(NamedTuple):
    """What the shard says: the watermark before and after the batch, needs met in between, and late events."""

    since: int
    until: int
    met: pa.RecordBatch
    late: pa.RecordBatch


def step(journal: Journal, terms: Terms, rows: KeyRows) -> KeyNews:
    header = opened(journal.header(), terms.shards, {"clock": asdict(Clock()), "next": int(NEVER)})
    clock = Clock(**header["clock"])
    since = clock.watermark_ms
    clock.advance(rows.beat, lateness_ms=terms.lateness_ms, idle_after_ms=terms.idle_after_ms)
    until = clock.watermark_ms
    header["clock"] = asdict(clock)

    events, needs = joined(rows.events, EVENT), joined(rows.needs, NEED)
    timely = ints(events, "at") >= since
    late, events = where(events, ~timely), where(events, timely)
    # The operation itself is turned away by its own shard.
    needs = where(needs, ints(needs, "submitted") >= since)
    arrived = {"events": events, "needs": needs}
    new = events.num_rows + needs.num_rows
    met = empty(MET)
    header["next"] = min(header["next"], _earliest(events, needs, until=since))
    if header["next"] < until:
        met = _advance(journal, terms, header, arrived, since, until)
    elif new:
        journal.append(arrived)
        header["logged"] += new
    journal.keep_header(header)
    return KeyNews(since, until, met, late)


def _advance(
    journal: Journal, terms: Terms, header: dict[str, int], arrived: dict[str, pa.RecordBatch], since: int, until: int
) -> pa.RecordBatch:
    known, log = Keys(**journal.snapshot()), journal.log()
    events = joined([log["events"], arrived["events"]], EVENT)
    needs = joined([log["needs"], arrived["needs"]], NEED)
    met = meet(known, needs, events, since, until)
    header["logged"] += sum(table.num_rows for table in arrived.values())
    if is_long(header):
        forget = None if terms.forget_keys_after_ms is None else until - terms.forget_keys_after_ms
        known = fold(known, needs, events, until, forget)
        later = {
            "events": where(events, ints(events, "at") >= until),
            "needs": where(needs, ints(needs, "submitted") >= until),
        }
        journal.rewrite(known._asdict(), later)
        header["kept"] = sum(table.num_rows for table in (*known, *later.values()))
        header["logged"] = 0
    else:
        journal.append(arrived)
    header["next"] = _earliest(events, needs, until=until)
    return met


def _earliest(events: pa.RecordBatch, needs: pa.RecordBatch, until: int) -> int:
    """The first row at or after `until`: nothing is to be done before the watermark passes it."""
    return min(
        int(times[times >= until].min(initial=NEVER)) for times in (ints(events, "at"), ints(needs, "submitted"))
    )
