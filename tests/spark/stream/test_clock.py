"""The watermark: moved by rows, by silence, and never by the query's own absence."""

from __future__ import annotations

from dwell.spark.stream.clock import EVENTS, OPERATIONS, START, Beat, Clock


def beat(now_ms: int | None = None, *, operations: int | None = None, events: int | None = None) -> Beat:
    one = Beat(now_ms=now_ms)
    for source, latest_ms in ((OPERATIONS, operations), (EVENTS, events)):
        one.saw(source, 0 if latest_ms is None else 1, latest_ms)
    return one


def watermarks(*beats: Beat, lateness_ms: int = 10, idle_after_ms: int | None = 100) -> list[int]:
    clock = Clock()
    said = []
    for one in beats:
        clock.advance(one, lateness_ms=lateness_ms, idle_after_ms=idle_after_ms)
        said.append(clock.watermark_ms)
    return said


def test_the_slower_source_counts_and_it_never_falls() -> None:
    assert watermarks(
        beat(operations=50), beat(events=40), beat(events=200), beat(operations=45, events=45), beat(operations=90)
    ) == [START, 30, 40, 40, 80]


def test_a_source_never_heard_of_holds_everything_until_it_is_idle() -> None:
    assert watermarks(beat(1000, operations=990), beat(1050), beat(1099), beat(1100)) == [START, START, START, 1000]


def test_with_one_source_quiet_the_other_one_leads() -> None:
    rows = [beat(now, operations=now - 5) for now in range(1000, 1400, 50)]
    rows[0].saw(EVENTS, 1, 990)
    # Events stop at 990. From 1100 on they are idle and stand at the wall clock less 100.
    assert watermarks(*rows) == [980, 980, 1000, 1050, 1100, 1150, 1200, 1250]


def test_in_silence_it_follows_the_wall_clock() -> None:
    assert watermarks(
        beat(1000, operations=1000, events=1000), beat(1090), beat(1100), beat(1150), beat(1160, events=1155)
    ) == [990, 990, 1000, 1050, 1060]


def test_old_rows_that_keep_coming_are_no_silence() -> None:
    rows = [beat(10**12 + now, operations=now, events=now) for now in range(0, 500, 50)]
    assert watermarks(*rows)[-1] == 440


def test_time_while_the_query_was_down_is_no_silence() -> None:
    down_ms = 10**6
    assert watermarks(
        beat(1000, operations=1000, events=1000),
        # The first batch after a restart finds nothing of one source, and the other one far behind.
        beat(down_ms, events=1100),
        beat(down_ms + 50, events=1200),
        beat(down_ms + 99, operations=1150, events=1300),
    ) == [990, 990, 990, 1140]


def test_micro_batches_longer_than_idle_after_do_not_hide_silence() -> None:
    slow = [beat(1000 + 250 * number) for number in range(1, 5)]
    # The first long gap might be an absence; a second one as long is the pace of the query.
    assert watermarks(beat(1000, operations=1000, events=1000), *slow) == [990, 990, 1400, 1650, 1900]


def test_neither_do_some_that_take_so_long_among_others() -> None:
    beats, now_ms = [beat(1000, operations=1000, events=1000)], 1000
    for _ in range(3):
        for gap_ms in (250, 10, 10, 10):
            now_ms += gap_ms
            beats.append(beat(now_ms, events=now_ms))
    # The second long one is no absence: operations are quiet since the first.
    assert watermarks(*beats)[-4:] == [now_ms - 130, now_ms - 120, now_ms - 110, now_ms - 100]


def test_every_absence_is_one_when_the_query_ran_for_a_while_in_between() -> None:
    beats, now_ms = [], 1000
    for _ in range(3):
        beats += [beat(now_ms + since, operations=1000, events=1000) for since in range(0, 150, 50)]
        now_ms += 10**6
        beats.append(beat(now_ms))
        now_ms += 50
    assert set(watermarks(*beats)) == {990}


def test_a_wall_clock_that_was_ahead_for_a_moment_stops_nothing() -> None:
    back = [beat(1000 + since) for since in (20, 70, 120, 170)]
    assert watermarks(beat(1000, operations=1000, events=1000), beat(10**12), *back) == [990, 990, 990, 990, 1020, 1070]
    # And an absence after that is still seen as one.
    assert watermarks(beat(1000, operations=1000, events=1000), beat(10**12), *back, beat(10**6))[-1] == 1070


def test_rows_are_no_silence_however_short_it_may_be() -> None:
    rows = [beat(1000 + now, operations=now, events=now) for now in (50, 60)]
    assert watermarks(*rows, beat(1100), idle_after_ms=0) == [40, 50, 1100]


def test_a_slow_query_that_was_down_knows_it() -> None:
    slow = [beat(1000 + 250 * number, operations=1000, events=1000) for number in range(4)]
    assert watermarks(*slow, beat(10**6), beat(10**6 + 250)) == [990, 990, 990, 990, 990, 10**6 + 150]


def test_without_idle_after_only_rows_count() -> None:
    quiet = [beat(10**9 + now) for now in range(0, 1000, 10)]
    assert set(watermarks(beat(0, operations=50, events=50), *quiet, idle_after_ms=None)) == {40}


def test_a_live_stream_after_a_backlog_meets_its_rows_before_silence_counts() -> None:
    clock = Clock()
    # Settled once a day, where silence does not count.
    for day in range(3):
        clock.advance(beat(day * 86_400_000, operations=50, events=50), lateness_ms=10, idle_after_ms=None)
    start_ms = 10 * 86_400_000
    live = [
        beat(start_ms, events=70),
        beat(start_ms + 50, operations=80),
        beat(start_ms + 99, operations=90, events=90),
    ]
    said = []
    for one in live:
        clock.advance(one, lateness_ms=10, idle_after_ms=100)
        said.append(clock.watermark_ms)
    assert said == [40, 60, 80]
