"""One shard of stage 1 for one micro-batch: rows in, needs met out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dwell.spark.stream.clock import Beat, Clock
from dwell.spark.stream.journal import Header, Journal, folded, is_long, opened
from dwell.spark.stream.late import LATE, concerned
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
    """What the shard says: the watermark after the batch, needs met up to it, how many events were late, and, if asked
    for, which."""

    until: int
    met: pa.RecordBatch
    late: int
    shown: pa.RecordBatch


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
    met, shown = empty(MET), empty(LATE)
    header["next"] = min(header["next"], _earliest(events, needs, from_=since))
    if header["next"] < until or (terms.late_events and late.num_rows):
        known, log = Keys(**journal.snapshot()), journal.log()
        all_needs, all_events = joined([log["needs"], needs], NEED), joined([log["events"], events], EVENT)
        met = meet(known, all_needs, all_events, since, until)
        if terms.late_events and late.num_rows:
            shown = concerned(known, all_needs, all_events, late, until)
        header["next"] = _earliest(all_events, all_needs, from_=until)
        header["logged"] += events.num_rows + needs.num_rows
        # A level is said only of a volume, which is not done with it.
        header["spent"] += met.column("level").null_count
        over = int((ints(known.needs, "deadline") < until - _linger_ms(terms)).sum())
        if is_long(header) or is_long(header | {"spent": over}):
            _fold(journal, terms, header, known, all_needs, all_events, until)
        else:
            journal.append({"events": events, "needs": needs})
    elif events.num_rows or needs.num_rows:
        journal.append({"events": events, "needs": needs})
        header["logged"] += events.num_rows + needs.num_rows
    journal.keep_header(header)
    return KeyNews(until, met, late.num_rows, shown)


def _fold(
    journal: Journal,
    terms: Terms,
    header: Header,
    known: Keys,
    needs: pa.RecordBatch,
    events: pa.RecordBatch,
    until: int,
) -> None:
    forget = None if terms.forget_keys_after_ms is None else until - terms.forget_keys_after_ms
    known = fold(known, needs, events, until, linger_ms=_linger_ms(terms), forget_before=forget)
    later = {
        "events": where(events, ints(events, "at") >= until),
        "needs": where(needs, ints(needs, "submitted") >= until),
    }
    journal.rewrite(known._asdict(), later)
    folded(header, (*known, *later.values()))


def _linger_ms(terms: Terms) -> int:
    """How long needs are kept when they are met or over."""
    return terms.remember_ms if terms.late_events else 0


def _earliest(events: pa.RecordBatch, needs: pa.RecordBatch, from_: int) -> int:
    """The first row at or after a time: nothing is to be done before the watermark passes it."""
    return min(
        int(times[times >= from_].min(initial=NEVER)) for times in (ints(events, "at"), ints(needs, "submitted"))
    )
