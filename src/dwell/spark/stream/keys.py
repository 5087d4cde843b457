"""One shard of stage 1 for one micro-batch: rows in, needs met out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dwell.spark.stream.clock import Beat, Clock
from dwell.spark.stream.journal import Journal, Times, opened
from dwell.spark.stream.late import LATE, concerned
from dwell.spark.stream.meet import Keys, fold, meet
from dwell.spark.stream.store import Layout
from dwell.spark.stream.table import EVENT, KEY, MET, NEED, among, empty, ints, joined, present, where

if TYPE_CHECKING:
    import pyarrow as pa

    from dwell.spark.stream.store import Store, Tables
    from dwell.spark.stream.table import Ints
    from dwell.spark.stream.terms import Terms

NOTHING = np.zeros(0, np.int64)

LAYOUT = Layout(
    parts={"keys": KEY, "needs": NEED},
    log={"keys": KEY, "needs": NEED, "events": EVENT},
    times={"events": "at", "needs": "submitted"},
)


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


def step(store: Store, terms: Terms, rows: KeyRows) -> KeyNews:
    header = opened(store.header(), terms.shards, {"clock": asdict(Clock())})
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
    asked = late if terms.late_events else late.slice(0, 0)
    if events.num_rows or needs.num_rows or asked.num_rows or header["next"] < until:
        journal = KeyJournal(store, terms, until)
        ripe = journal.ripe({"events": events, "needs": needs})
        about = [*ripe.values(), asked]
        if any(table.num_rows for table in about):
            parts, log = journal.known(about), journal.log()
            known = Keys(joined([parts["keys"], log["keys"]], KEY), parts["needs"])
            all_needs = joined([log["needs"], ripe["needs"]], NEED)
            all_events = joined([log["events"], ripe["events"]], EVENT)
            met = meet(known, all_needs, all_events, since)
            if asked.num_rows:
                shown = concerned(known, all_needs, all_events, asked)
            # A level is said only of a volume, which is not done with it.
            done = where(met, ~present(met, "level"))
            journal.spend(int(among(done.column("hash"), known.needs.column("hash")).sum()))
        journal.keep(ripe)
        journal.close()
        header["next"] = journal.next
    store.keep_header(header)
    return KeyNews(until, met, late.num_rows, shown)


class KeyJournal(Journal):
    def __init__(self, store: Store, terms: Terms, until: int) -> None:
        self._forget_ms = terms.forget_keys_after_ms
        # How long needs are kept when they are met or over.
        self._linger_ms = terms.remember_ms if terms.late_events else 0
        super().__init__(store, until)

    @property
    def lasts(self) -> list[int | None]:
        return [self._forget_ms, self._linger_ms]

    def cells(self, table: pa.RecordBatch) -> Ints:
        return ints(table, "cell")

    def fold(self, known: Tables, log: Tables) -> Tables:
        return fold(
            Keys(joined([known["keys"], log["keys"]], KEY), known["needs"]),
            log["needs"],
            log["events"],
            self._until,
            linger_ms=self._linger_ms,
            forget_before=None if self._forget_ms is None else self._until - self._forget_ms,
        )._asdict()

    def came(self, known: Tables) -> Times:
        return Times(self.cells(known["needs"]), ints(known["needs"], "submitted"))

    def due(self, tables: Tables) -> Times:
        return Times(NOTHING, NOTHING)

    def over(self, known: Tables) -> Times:
        needs, keys = known["needs"], known["keys"]
        at = np.where(present(needs, "met"), ints(needs, "met"), ints(needs, "deadline")) + self._linger_ms
        if self._forget_ms is None:
            return Times(self.cells(needs), at)
        forgotten = ints(keys, "seen") + self._forget_ms
        return Times(np.concatenate([self.cells(needs), self.cells(keys)]), np.concatenate([at, forgotten]))
