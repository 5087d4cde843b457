"""What both stages decide, without Spark: equal to `replay` however the rows are cut and shuffled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dwell.contract.order import content
from dwell.contract.reason import Reason
from dwell.contract.time_range import is_usable_time
from dwell.ledger import Event, Need, Outcome, Wait, replay
from dwell.ledger.admission import fault, is_usable_event
from dwell.spark.stream import journal
from dwell.spark.stream.decide import rows_of
from dwell.spark.stream.terms import Terms
from tests.ledger.history import LAST_MS
from tests.spark.histories import column_history
from tests.spark.stream.shards import Shards

if TYPE_CHECKING:
    from collections.abc import Sequence

FAR_MS = 4 * LAST_MS

SEEDS, LATE_SEEDS = 70, 40


def terms(lateness_ms: int = 0, *, shards: int = 3, remember_ms: int = 0, late_events: bool = False) -> Terms:
    return Terms(
        shards=shards,
        lateness_ms=lateness_ms,
        idle_after_ms=10,
        remember_ms=remember_ms,
        forget_keys_after_ms=None,
        late_events=late_events,
    )


def arrivals(rng: Random, waits: Sequence[Wait], events: Sequence[Event], lateness_ms: int) -> list[Wait | Event]:
    """The rows in an order in which none is later than allowed."""

    def arrival(row: Wait | Event) -> tuple[float, float]:
        at_ms = row.submitted_at_ms if isinstance(row, Wait) else row.at_ms
        if not is_usable_time(at_ms) or at_ms is None:
            return rng.choice((-FAR_MS, FAR_MS)), rng.random()
        return at_ms + rng.randint(0, lateness_ms), rng.random()

    return sorted([*waits, *events], key=arrival)


def run(shards: Shards, rows: Sequence[Wait | Event], rng: Random) -> list[Outcome]:
    """Cut into random micro-batches, then silence to the end of time."""
    outcomes: list[Outcome] = []
    place = 0
    while place < len(rows):
        size = rng.choice((0, 1, 1, 2, 5, len(rows)))
        batch = rows[place : place + size]
        place += size
        outcomes += shards.batch(
            [row for row in batch if isinstance(row, Wait)], [row for row in batch if isinstance(row, Event)]
        )
        shards.check()
    for now_ms in (FAR_MS, FAR_MS + 10):
        outcomes += shards.batch([], [], now_ms)
        shards.check()
    return outcomes


@pytest.mark.usefixtures("folding")
def test_any_cut_of_any_history_settles_as_replay_does() -> None:
    for seed in range(SEEDS):
        rng = Random(seed)
        waits, events = column_history(rng, rng.choice((4, 12)))
        lateness_ms = rng.choice((0, 1, 5, 50, 1000))
        shards = Shards(terms(lateness_ms, shards=rng.choice((1, 3)), remember_ms=10**15))
        said = run(shards, arrivals(rng, waits, events, lateness_ms), rng)
        assert Counter(said) == Counter(replay(waits, events)), f"seed {seed}"
        assert shards.late == 0
        assert shards.pending == 0


def accepted(shards: Shards, rows: Sequence[Wait | Event]) -> list[Wait | Event]:
    """Those that are not late, as the watermark stands."""
    since = shards.watermark_ms
    return [row for row in rows if time_of(row) is None or time_of(row) >= since]  # type: ignore[operator]


def time_of(row: Wait | Event) -> int | None:
    at_ms = row.submitted_at_ms if isinstance(row, Wait) else row.at_ms
    return at_ms if is_usable_time(at_ms) else None


def split(rows: Sequence[Wait | Event]) -> tuple[list[Wait], list[Event]]:
    return [row for row in rows if isinstance(row, Wait)], [row for row in rows if isinstance(row, Event)]


@pytest.mark.usefixtures("folding")
def test_late_rows_are_set_aside_and_shown_with_what_they_would_have_changed() -> None:
    shown = 0
    for seed in range(LATE_SEEDS):
        rng = Random(seed)
        waits, events = column_history(rng, 30)
        waits = [wait for wait in waits if not fault(*wait)]
        events = [event for event in events if is_usable_event(event)]
        rows = arrivals(rng, waits, events, rng.choice((10, 30, 100)))
        shards = Shards(terms(0, shards=rng.choice((1, 3)), remember_ms=10**15, late_events=True))
        taken: list[Wait | Event] = []
        said: list[Outcome] = []
        while rows:
            batch, rows = rows[: (size := rng.choice((1, 2, 4)))], rows[size:]
            timely = accepted(shards, batch)
            late = [row for row in batch if row not in timely]
            taken += timely
            before = len(shards.shown)
            said += shards.batch(*split(batch))
            until = shards.watermark_ms
            told = shards.shown[before:]
            assert shards.alone(told) == Counter(row for row in late if isinstance(row, Event)), f"seed {seed}"
            taken_waits, taken_events = split(taken)
            was = {one.op_id: one for one in firsts(taken_waits, taken_events, until)}
            for event in {row for row in late if isinstance(row, Event)}:
                would = {one.op_id: one for one in firsts(taken_waits, [*taken_events, event], until)}
                expected = {would[op_id] for op_id in was if was[op_id] != would[op_id]}
                assert shards.would(told, event) == expected, f"seed {seed}"
                shown += len(expected)
        said += shards.batch([], [], FAR_MS) + shards.batch([], [], FAR_MS + 10)
        taken_waits, taken_events = split(taken)
        timely_ids = {(*content(wait), wait.op_id) for wait in taken_waits}
        too_late = {wait.op_id: wait for wait in waits if (*content(wait), wait.op_id) not in timely_ids}
        rejected = [one for one in said if (one.reason or "").startswith(Reason.TOO_LATE.value)]
        assert {one.op_id for one in rejected} == set(too_late), f"seed {seed}"
        rest = Counter(said) - Counter(rejected)
        assert rest == Counter(replay(taken_waits, taken_events)), f"seed {seed}"
    assert shown > 10


def test_one_turned_away_does_not_come_back_when_its_rival_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", -1)
    shards = Shards(terms(remember_ms=10, late_events=True))
    said: list[Outcome] = []
    for wait, event in (
        (Wait("a", [Need("k")], 0, 0), Event("x", 0)),
        (Wait("a", [Need("l")], 30, 5), Event("x", 5)),
        # Only the second one under `a` is remembered after this.
        (Wait("b", [Need("y")], 0, 15), Event("x", 15)),
        (Wait("c", [Need("y")], 0, 20), Event("l", 20)),
        (Wait("d", [Need("y")], 0, 50), Event("x", 50)),
    ):
        said += shards.batch([wait], [event])
    assert Counter((one.op_id, one.outcome) for one in said) == Counter(
        [("a", "expired"), ("a", "rejected"), ("b", "expired"), ("c", "expired")]
    )


def test_one_turned_away_does_not_come_due_though_its_rival_lies_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", -1)
    shards = Shards(terms(shards=1, remember_ms=1000))
    said = shards.batch([Wait("a", [Need("k")], 0, 0), Wait("b", [Need("k")], 0, 1)], [Event("x", 1)])
    # From here on nothing is folded: the first `a` is in a part, the second stays in the log.
    monkeypatch.setattr(journal, "SHORT_LOG", 4096)
    said += shards.batch([Wait("a", [Need("l")], 495, 10), Wait("c", [Need("k")], 0, 20)], [Event("x", 20)])
    for now_ms in (500, 510, 520):
        said += shards.batch([], [], now_ms)
    assert Counter((one.op_id, one.outcome) for one in said) == Counter(
        [("a", "expired"), ("b", "expired"), ("a", "rejected"), ("c", "expired")]
    )


def test_a_late_event_that_adds_nothing_to_a_volume_changes_nothing() -> None:
    shards = Shards(terms(remember_ms=100, late_events=True))
    shards.batch([Wait("a", [Need("k", 2), Need("l", 2)], 0, 1, None, 3)], [Event("l", 1, 5)])
    shards.batch([Wait("b", [Need("x")], 0, 2)], [Event("x", 2)])
    shards.batch([], [Event("k", 1, 2), Event("k", 1, 3)])
    assert shards.would(shards.shown, Event("k", 1, 2)) == set()
    assert {one.completed_by for one in shards.would(shards.shown, Event("k", 1, 3))} == {"k"}


def firsts(waits: Sequence[Wait], events: Sequence[Event], until: int) -> list[Outcome]:
    """What is known of each op_id's own operation once everything before `until` is."""
    known = [wait for wait in waits if (wait.submitted_at_ms or 0) < until]
    return [one for one in replay(known, events, as_of_ms=until - 1) if one.outcome != "rejected"]


def test_what_is_not_due_is_not_read() -> None:
    shards = Shards(terms(shards=1))
    shards.batch([Wait(f"op{i}", [Need(f"k{i}")], 1000, 0) for i in range(50)], [Event("x", 1)])
    shards.batch([Wait("mover", [Need("m")], 1000, 5)], [Event("x", 5)])
    before = [store.reads for store in shards.keys + shards.ops]
    for now_ms in range(10, 20):
        assert shards.batch([], [], now_ms) == []
    assert [store.reads for store in shards.keys + shards.ops] == before
    assert shards.pending == 51


def test_a_batch_reads_what_its_rows_are_about_however_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("SHORT_LOG", 8), ("PART_ROWS", 8), ("SLICE_ROWS", 8)):
        monkeypatch.setattr(journal, name, size)
    reads = []
    for many in (50, 2_000):
        shards = Shards(terms(100, shards=1))
        shards.batch([Wait(f"op{i}", [Need(f"k{i}")], 10_000, 0) for i in range(many)], [Event("x", 0)])
        # Put off: the watermark comes to them later.
        shards.batch([Wait(f"far{i}", [Need("f")], 5, 5_000 + i) for i in range(many)], [])
        shards.batch([Wait("mover", [Need("m")], 0, 200)], [Event("x", 200)])
        assert shards.pending == 2 * many + 1
        stores = shards.keys + shards.ops
        assert max(store.rows("needs" if store in shards.keys else "ops") for store in stores) > 2 * many
        for store in stores:
            store.reads = 0
        said: list[Outcome] = []
        for turn in range(1, 11):
            at_ms = 200 + 10 * turn
            said += shards.batch([Wait(f"new{turn}", [Need("n")], 5, at_ms)], [Event(f"k{turn}", at_ms)])
        said += shards.batch([Wait("last", [Need("n")], 0, 500)], [Event("x", 500)])
        assert Counter(one.outcome for one in said) == Counter(completed=10, expired=11)
        assert shards.pending == 2 * many - 9
        reads.append(max(store.reads for store in stores))
    few, very_many = reads
    assert very_many < 2 * few < 200


def test_a_repeat_within_memory_changes_nothing_and_one_beyond_it_is_too_late() -> None:
    wait = Wait("a", [Need("k")], 5, 0)
    shards = Shards(terms(remember_ms=100))
    said = shards.batch([wait], [Event("k", 1)]) + shards.batch([Wait("b", [Need("z")], 0, 50)], [Event("z", 50)])
    assert [(one.op_id, one.outcome) for one in said] == [("a", "completed")]
    assert shards.batch([wait, wait], [Event("k", 1)]) == []
    # Another content under the same op_id is seen as such while the first is remembered.
    other = Wait("a", [Need("k")], 7, 60)
    shards.batch([other], [Event("z", 61)])
    said = shards.batch([Wait("c", [Need("z")], 0, 70)], [Event("z", 70)])
    assert {(one.op_id, one.reason) for one in said if one.outcome == "rejected"} == {
        ("a", Reason.CONTENT_DIFFERS.text("a"))
    }


def test_a_faulty_row_without_a_time_is_remembered_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", -1)
    shards = Shards(terms(remember_ms=100))
    faulty = Wait("a", [Need("k")], 5, None)
    said = shards.batch([faulty, Wait("b", [Need("k")], 5, 1000)], [Event("k", 1000)])
    said += shards.batch([faulty], [Event("k", 1001)])
    said += shards.batch([faulty, Wait("c", [Need("k")], 5, 1050)], [Event("k", 1050)])
    assert [one.op_id for one in said if one.outcome == "rejected"] == ["a"]


def test_keys_are_forgotten_when_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", -1)
    for forget_ms, outcome in ((None, "completed"), (100, "expired")):
        shards = Shards(replace(terms(), forget_keys_after_ms=forget_ms))
        shards.batch([Wait("x", [Need("x")], 0, 0)], [Event("k", 0, 7)])
        shards.batch([Wait("y", [Need("x")], 0, 500)], [Event("x", 500)])
        late = shards.batch([Wait("late", [Need("k", 7)], 10, 600)], [Event("x", 600)])
        late += shards.batch([Wait("z", [Need("x")], 0, 900)], [Event("x", 900)])
        assert {one.outcome for one in late if one.op_id == "late"} == {outcome}


@pytest.mark.usefixtures("folding")
def test_terms_other_than_shards_may_change_on_the_way() -> None:
    for seed in range(30):
        rng = Random(seed)
        waits, events = column_history(rng, 12)
        shards = Shards(terms(5, remember_ms=10**15))
        rows = arrivals(rng, waits, events, 5)
        said = []
        for part in range(4):
            shards.terms = replace(
                shards.terms,
                lateness_ms=rng.randint(5, 50),
                idle_after_ms=rng.randint(5, 50),
                forget_keys_after_ms=rng.choice((None, 10**15)),
                late_events=rng.random() < 0.5,
            )
            said += shards.batch(*split(rows[part * len(rows) // 4 : (part + 1) * len(rows) // 4]), now_ms=part * 100)
        shards.terms = replace(shards.terms, idle_after_ms=10)
        said += shards.batch([], [], FAR_MS) + shards.batch([], [], FAR_MS + 10)
        assert Counter(said) == Counter(replay(waits, events)), f"seed {seed}"


def test_what_is_settled_leaves_though_little_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", 3)
    shards = Shards(terms(shards=1))
    ends = (Wait(f"op{number}", [Need("k" if number % 2 else f"l{number}")], 100, 0) for number in range(40))
    shards.batch([*ends, Wait("open", [Need("o")], 10_000, 0)], [Event("x", 0)])
    # Half of them complete with one event, the others expire; until then a few rows keep the watermark moving.
    for at_ms in (10, 20, 90, 150, 160):
        shards.batch([Wait(f"at{at_ms}", [Need("x")], 0, at_ms)], [Event("k", at_ms)])
    (keys,), (ops,) = shards.keys, shards.ops
    assert shards.pending == 2
    assert keys.rows("needs") < 10
    assert ops.rows("ops") < 10


@pytest.mark.parametrize("late_events", [False, True])
@pytest.mark.parametrize("ends", ["expired", "completed"])
def test_what_is_settled_leaves_parts_though_nothing_is_about_it(
    ends: str, late_events: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", 50)
    monkeypatch.setattr(journal, "PART_ROWS", 8)
    shards = Shards(terms(shards=1, remember_ms=100, late_events=late_events))
    many, delay_ms = 300, 1000 if ends == "expired" else 10**6
    said = shards.batch(
        [Wait(f"op{i}", [Need("k"), Need("l"), Need("m")], delay_ms, 0) for i in range(many)], [Event("x", 0)]
    )
    said += shards.batch([Wait("m1", [Need("z")], 0, 10)], [Event("k", 10), Event("l", 10)])
    said += shards.batch([Wait("m2", [Need("z")], 0, 500)], [Event("m", 500)] if ends == "completed" else [])
    for at_ms in (1050, 1100, 1500, 3000, 10_000):
        said += shards.batch([Wait(f"at{at_ms}", [Need("z")], 0, at_ms)], [Event("x", at_ms)])
    assert Counter(one.outcome for one in said if (one.op_id or "").startswith("op")) == {ends: many}
    (keys,), (ops,) = shards.keys, shards.ops
    assert max(keys.rows("needs"), ops.rows("ops"), ops.rows("met"), ops.rows("known")) < 50


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"forget_keys_after_ms": None}, {"forget_keys_after_ms": 50}),
        ({"late_events": True, "remember_ms": 10**9}, {"remember_ms": 10}),
        ({"late_events": True, "remember_ms": 10**9}, {"remember_ms": 10, "late_events": False}),
    ],
)
def test_terms_that_keep_less_hold_for_what_is_kept_already(
    before: dict[str, Any], after: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", 50)
    monkeypatch.setattr(journal, "PART_ROWS", 8)
    shards = Shards(replace(terms(shards=1, remember_ms=100), **before))
    waits = [Wait(f"op{i}", [Need(f"k{i}", 1)], 5, 0) for i in range(300)]
    shards.batch(waits, [Event(f"k{i}", 0, 1) for i in range(300)])
    for at_ms in (10, 20, 30):
        shards.batch([Wait(f"m{at_ms}", [Need("z")], 0, at_ms)], [Event("x", at_ms)])
    (keys,), (ops,) = shards.keys, shards.ops
    kept = keys.rows("keys"), keys.rows("needs"), ops.rows("ops"), ops.rows("known")
    shards.terms = replace(shards.terms, **after)
    for at_ms in (1000, 2000, 3000, 4000):
        shards.batch([Wait(f"m{at_ms}", [Need("z")], 0, at_ms)], [Event("x", at_ms)])
    assert kept[0] >= 300
    assert sum(kept) >= 600
    keys_left = 50 if shards.terms.forget_keys_after_ms else 350
    assert keys.rows("keys") < keys_left
    assert max(keys.rows("needs"), ops.rows("ops"), ops.rows("known")) < 50


def test_few_rows_after_many_do_not_make_the_log_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", 16)
    monkeypatch.setattr(journal, "PART_ROWS", 8)
    shards = Shards(terms(shards=1))
    shards.batch([Wait(f"op{i}", [Need(f"k{i}")], 10**6, 0) for i in range(1000)], [Event("x", 0)])
    shards.batch([Wait("m", [Need("z")], 0, 1)], [Event("x", 1)])
    stores = shards.keys + shards.ops
    before = [store.writes for store in stores]
    for turn in range(5):
        at_ms = 10 + 10 * turn
        shards.batch(
            [Wait(f"t{turn}", [Need("z")], 0, at_ms)], [Event(f"k{turn * 40 + i}", at_ms - 5) for i in range(40)]
        )
        shards.batch([Wait(f"u{turn}", [Need("z")], 0, at_ms + 1)], [Event("x", at_ms + 1)])
    assert [store.writes for store in stores] == before
    assert shards.pending == 1000 - 200 + 1


def test_a_repeat_is_shown_once_with_a_late_event() -> None:
    shards = Shards(terms(shards=1, remember_ms=1000, late_events=True))
    wait = Wait("a", [Need("k")], 5, 0)
    shards.batch([wait, wait], [Event("x", 0)])
    shards.batch([Wait("b", [Need("z")], 0, 50)], [Event("x", 50)])
    shards.batch([], [Event("k", 1)])
    assert [row["op_id"] for row in shards.shown] == [None, "a"]


def test_one_turned_away_is_not_shown_as_if_it_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", -1)
    shards = Shards(terms(shards=1, remember_ms=1000))
    shards.batch([Wait("a", [Need("k")], 0, 0)], [Event("x", 0)])
    shards.batch([Wait("b", [Need("z")], 0, 10)], [Event("x", 10)])
    monkeypatch.setattr(journal, "SHORT_LOG", 4096)
    shards.terms = replace(shards.terms, late_events=True)
    shards.batch([Wait("a", [Need("l")], 500, 20)], [Event("x", 20)])
    shards.batch([Wait("c", [Need("z")], 0, 40)], [Event("x", 40)])
    shards.batch([], [Event("l", 30)])
    assert [row["op_id"] for row in shards.shown] == [None]


def test_of_a_volume_only_the_last_rise_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SHORT_LOG", -1)
    shards = Shards(terms(shards=1))
    waits = [Wait("a", [Need("k", 0), Need("l", 0)], 10_000, 0, None, 100), Wait("b", [Need("k", 90)], 10_000, 0)]
    events = [Event("l", 5, 1), *(Event("k", at_ms, at_ms) for at_ms in range(1, 110))]
    said = shards.batch(waits, [])
    for event in sorted(events, key=lambda event: event.at_ms or 0):
        said += shards.batch([Wait("x", [Need("k")], 0, event.at_ms)], [event])
        (ops,) = shards.ops
        assert ops.rows("met") < 6
    said = [one for one in said if one.op_id != "x"]
    assert Counter(said) == Counter(replay(waits, events))


def test_many_operations_under_one_op_id_are_told_apart() -> None:
    rng = Random(5)
    contents = [(rng.randrange(3), rng.randrange(10**6)) for _ in range(2_000)]
    asked = [*contents, *((rng.randrange(4), rng.randrange(10**6)) for _ in range(2_000))]
    rng.shuffle(asked)
    contents = list(dict.fromkeys(contents))
    place = {content: row for row, content in enumerate(contents)}
    ops, met = (pa.RecordBatch.from_pylist([{"hash": h, "tag": t} for h, t in rows]) for rows in (contents, asked))
    assert rows_of(ops, met).tolist() == [place.get(content, -1) for content in asked]
