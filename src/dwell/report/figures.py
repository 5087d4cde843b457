"""Outcomes summed up, in memory that does not grow with their number: three walks over the columns that are asked for.

The first finds the span of time, the second fills histograms, the third counts the groups that expire most.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dwell.errors import InvalidArgument
from dwell.report.wait_histogram import WaitHistogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

KINDS = ("completed", "expired", "rejected", "pending")

# Widths a person can read off an axis: from a millisecond to thirty days.
NICE_MS: tuple[int, ...] = (1, 5, 10, 50, 100, 500, 1000, 5000, 15_000, 60_000, 300_000, 900_000)
NICE_MS += (3_600_000, 10_800_000, 21_600_000, 86_400_000, 7 * 86_400_000, 30 * 86_400_000)
MOST_BINS = 200

# Groups counted at once; beyond, the rarest are forgotten, and a group that comes often is still found.
MOST_GROUPS = 200_000
SHOWN_GROUPS = 12
SHOWN_REASONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    counts: dict[str, int]
    start_ms: int
    bin_ms: int
    over_time: dict[str, list[int]]  # by kind: operations submitted in each bin
    pending: list[int]  # waiting at the end of each bin
    waits: WaitHistogram  # of the completed
    expired_after: WaitHistogram
    delays: list[tuple[int, int]]  # (delay, operations that had it), the most common first
    group_by: str
    groups: list[tuple[str, int, int]]  # name, expired, all; those that expire most first
    reasons: list[tuple[str, int]]

    @property
    def operations(self) -> int:
        return sum(self.counts.values())

    @property
    def settled(self) -> int:
        return self.counts["completed"] + self.counts["expired"]


def figures(rows: Any, *, by: str | None = None) -> Figures:
    """Sum up a dataset of outcomes. `by`: the column whose values are compared; by default the keys waited for."""
    names = rows.schema.names
    start_ms, end_ms = _span(rows)
    bin_ms = next((nice for nice in NICE_MS if (end_ms - start_ms) // nice < MOST_BINS), NICE_MS[-1])
    start_ms -= start_ms % bin_ms
    bins = min((end_ms - start_ms) // bin_ms + 1, 100_000)
    begun = {kind: np.zeros(bins, np.int64) for kind in KINDS}
    ended = np.zeros(bins, np.int64)
    waits, expired_after = WaitHistogram(), WaitHistogram()
    counts, delays, reasons = Counter[str](), Counter[int](), Counter[str]()
    wanted = [
        name for name in ("outcome", "submitted_at", "finished_at", "waited_ms", "delay_ms", "reason") if name in names
    ]
    for batch in _batches(rows, wanted):
        kinds = batch["outcome"]
        _count(counts, kinds)
        submitted, finished = _submitted_ms(batch), _millis(batch["finished_at"])
        for kind in KINDS:
            chosen = submitted.filter(pc.equal(kinds, kind))
            begun[kind] += np.bincount(_bin(chosen, start_ms, bin_ms, bins), minlength=bins)
        ended += np.bincount(_bin(finished, start_ms, bin_ms, bins), minlength=bins)
        waits.add(_numbers(batch["waited_ms"].filter(pc.equal(kinds, "completed"))))
        expired_after.add(_numbers(batch["waited_ms"].filter(pc.equal(kinds, "expired"))))
        if "delay_ms" in names:
            _count(delays, batch["delay_ms"].filter(pc.not_equal(kinds, "rejected")))
        else:
            _count(delays, batch["waited_ms"].filter(pc.equal(kinds, "expired")))
        if "reason" in names:
            _count(reasons, _without_values(batch["reason"].drop_null()))
    waiting = np.cumsum(sum(begun[kind] for kind in KINDS if kind != "rejected") - ended)
    group_by = by or ("key" if "needs" in names else "")
    return Figures(
        counts={kind: counts[kind] for kind in KINDS},
        start_ms=start_ms,
        bin_ms=bin_ms,
        over_time={kind: found.tolist() for kind, found in begun.items()},
        pending=[int(n) for n in waiting],
        waits=waits,
        expired_after=expired_after,
        delays=delays.most_common(5),
        group_by=group_by,
        groups=_groups(rows, by, names),
        reasons=reasons.most_common(SHOWN_REASONS),
    )


def _span(rows: Any) -> tuple[int, int]:
    """The first submission and the last moment anything happened."""
    names = [name for name in ("submitted_at", "finished_at", "waited_ms", "outcome") if name in rows.schema.names]
    first: list[int] = []
    last: list[int] = []
    for batch in _batches(rows, names):
        for times in (_submitted_ms(batch), _millis(batch["finished_at"])):
            found = pc.min_max(times).as_py()
            if found["min"] is not None:
                first.append(found["min"])
                last.append(found["max"])
    return (min(first), max(last)) if first else (0, 0)


def _groups(rows: Any, by: str | None, names: list[str]) -> list[tuple[str, int, int]]:
    column = by or "needs"
    if column not in names:
        return []
    expired = Counter[str]()
    for batch in _batches(rows, ["outcome", column]):
        late = batch.filter(pc.equal(batch["outcome"], "expired"))
        _count(expired, _group_names(late[column]))
        if len(expired) > MOST_GROUPS:
            expired = Counter(dict(expired.most_common(MOST_GROUPS // 2)))
    shown = expired.most_common(SHOWN_GROUPS)
    # A list of groups that came once each says nothing.
    if not shown or shown[0][1] < 2:
        return []
    totals = Counter[str]()
    chosen = pa.array([name for name, _ in shown], pa.string())
    for batch in _batches(rows, ["outcome", column]):
        found = _group_names(batch.filter(pc.not_equal(batch["outcome"], "rejected"))[column])
        _count(totals, found.filter(pc.is_in(found, chosen)))
    return [(name, count, totals[name]) for name, count in shown]


def _group_names(column: Any) -> Any:
    if pa.types.is_list(column.type):
        column = pc.list_flatten(column)
        if pa.types.is_struct(column.type):
            column = pc.struct_field(column, "key")
    return column.cast(pa.string()).drop_null()


def _batches(rows: Any, columns: list[str]) -> Iterator[Any]:
    try:
        for batch in rows.to_batches(columns=columns, batch_size=1 << 18):
            if batch.num_rows:
                yield batch
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"the outcomes hold a file that is no whole Parquet file: {error}") from error


def _count(counter: Counter[Any], values: Any) -> None:
    for pair in pc.value_counts(values.drop_null()).to_pylist():
        counter[pair["values"]] += pair["counts"]


def _submitted_ms(batch: Any) -> Any:
    if "submitted_at" in batch.schema.names:
        return _millis(batch["submitted_at"])
    return pc.subtract(_millis(batch["finished_at"]), batch["waited_ms"])


def _millis(times: Any) -> Any:
    return pc.floor_temporal(times, unit="millisecond").cast(pa.timestamp("ms", tz=times.type.tz)).cast(pa.int64())


def _numbers(column: Any) -> NDArray[np.int64]:
    return np.asarray(column.drop_null().to_numpy(zero_copy_only=False), np.int64)


def _bin(times: Any, start_ms: int, bin_ms: int, bins: int) -> NDArray[np.int64]:
    return np.minimum((_numbers(times) - start_ms) // bin_ms, bins - 1)


def _without_values(reasons: Any) -> Any:
    """`delay_ms is negative: -5` and `…: -6` are the same reason."""
    return pc.replace_substring_regex(reasons, ": .*$", "")
