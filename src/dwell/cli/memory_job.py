"""`dwell settle --engine memory`: the same job in this process, through `replay`."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from dwell.cli.argument import millis
from dwell.cli.curve_file import FILE_NAME
from dwell.cli.memory_curve import curve_in_memory
from dwell.cli.memory_input import Table, read_events, read_waits
from dwell.cli.output import LocalFiles, is_local, must_be_free, whole_or_nothing
from dwell.cli.problem import Problem
from dwell.cli.summary import Summary
from dwell.contract.columns import COMPLETED
from dwell.contract.order import content, order
from dwell.ledger import Outcome, Reason, Wait, replay
from dwell.ledger.admission import fault
from dwell.report.wait_histogram import WaitHistogram

if TYPE_CHECKING:
    import argparse

    from dwell.cli.inputs import Inputs

TIMESTAMP = pa.timestamp("us", tz="UTC")
NEEDS = pa.list_(pa.struct([("key", pa.string()), ("level", pa.int64())]))

# As Spark writes them: outcome first, then what was asked.
OUTCOME_TYPES = {
    "op_id": pa.string(),
    "outcome": pa.string(),
    "finished_at": TIMESTAMP,
    "waited_ms": pa.int64(),
    "completed_by": pa.string(),
    "reason": pa.string(),
}


def settle_in_memory(args: argparse.Namespace, inputs: Inputs) -> Summary:
    started = time.monotonic()
    if not is_local(args.out):
        raise Problem(f"--engine memory writes to this machine, not to {args.out}")
    files = LocalFiles()
    must_be_free(files, args.out, args.overwrite)
    asked, table = read_waits(inputs)
    events = read_events(inputs)
    run = replay(asked, events, as_of_ms=None if args.as_of is None else millis(args.as_of))
    outcomes = list(run)
    statistics = run.statistics()
    made = _table(outcomes, asked, table)
    waits = WaitHistogram()
    waits.add(np.array([one.waited_ms for one in outcomes if one.outcome == COMPLETED], np.int64))
    counts = {
        kind: pc.sum(pc.equal(made["outcome"], kind)).as_py() or 0
        for kind in ("completed", "expired", "rejected", "pending")
    }
    summary = Summary(
        engine="memory",
        out=args.out,
        operations=statistics.opened,
        repeats=statistics.repeated,
        completed=counts["completed"],
        expired=counts["expired"],
        rejected=counts["rejected"],
        pending=counts["pending"],
        events=len(events),
        events_set_aside=statistics.set_aside,
        seconds=round(time.monotonic() - started, 3),
        waited_ms=waits.percentiles(),
        as_of=None if args.as_of is None else args.as_of.isoformat(),
    )
    with whole_or_nothing(files, args.out, overwrite=args.overwrite) as partial:
        for name in ("outcomes", "rejected"):
            Path(partial, name).mkdir(parents=True)
        parquet.write_table(made, Path(partial, "outcomes", "part-0.parquet"))
        rejected = made.filter(pc.equal(made["outcome"], "rejected"))
        rejected = rejected.drop_columns(["outcome", "finished_at", "waited_ms", "completed_by"])
        parquet.write_table(rejected, Path(partial, "rejected", "part-0.parquet"))
        if args.curve:
            files.write_text(f"{partial}/{FILE_NAME}", curve_in_memory(inputs).as_json())
        files.write_text(f"{partial}/summary.json", summary.as_json())
    return summary


def _table(outcomes: list[Outcome], waits: list[Wait], table: Table) -> Any:
    """Outcomes beside the rows they belong to."""
    rows = _rows_of(outcomes, waits)
    columns: dict[str, Any] = {}
    for place, (name, kind) in enumerate(OUTCOME_TYPES.items()):
        values = [outcome[place] for outcome in outcomes]
        if name == "finished_at":
            values = [None if ms is None else ms * 1000 for ms in values]
        columns[name] = pa.array(values, kind)
    asked = [waits[row] for row in rows]
    submitted = table.column("submitted_at")
    given = TIMESTAMP if table.has_zone else pa.timestamp("us")
    columns["submitted_at"] = pa.array([submitted[row] for row in rows], given)
    columns["delay_ms"] = pa.array([wait.delay_ms for wait in asked], pa.int64())
    columns["needs"] = pa.array([_as_dicts(wait) for wait in asked], NEEDS)
    columns["quorum"] = pa.array([wait.quorum for wait in asked], pa.int64())
    columns["volume"] = pa.array([wait.volume for wait in asked], pa.int64())
    extras = table.extras.take(pa.array(rows, pa.int64()))
    for name in extras.column_names:
        if name in columns:
            raise Problem(f"operations has a column {name!r} that would clash with the outcome's: rename it")
        columns[name] = extras.column(name)
    return pa.table(columns)


def _rows_of(outcomes: list[Outcome], waits: list[Wait]) -> list[int]:
    """Which row each outcome is about: under its op_id the one rejected for that reason, or the one that was not."""
    contents: dict[tuple[object, ...], int] = {}
    by_id: defaultdict[str | None, list[int]] = defaultdict(list)
    for row, wait in enumerate(waits):
        same = (wait.op_id, content(wait))
        if not wait.op_id or same not in contents:
            contents[same] = row
            by_id[wait.op_id].append(row)
    places: defaultdict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for op_id, rows in by_id.items():
        faults = {row: fault(*waits[row]) for row in rows}
        sound = [row for row in rows if faults[row] is None]
        if len(sound) > 1:
            sound.sort(key=lambda row: order(waits[row]))
            faults.update(dict.fromkeys(sound[1:], Reason.CONTENT_DIFFERS.text(op_id)))
        for row in reversed(rows):
            places[op_id, faults[row]].append(row)
    return [places[outcome.op_id, outcome.reason].pop() for outcome in outcomes]


def _as_dicts(wait: Wait) -> list[dict[str, object]] | None:
    return None if wait.needs is None else [{"key": need.key, "level": need.level} for need in wait.needs]
