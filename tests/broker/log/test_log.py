"""Batches by offset, by bytes and by time, against a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dwell.broker.log.log import Log
from dwell.broker.record.batch import Batch
from dwell.broker.record.record import Record, write_batch


def batch(base_offset: int, times_ms: list[int], epoch: int = 0, size: int = 0, **options: int) -> Batch:
    made = write_batch([Record(offset=0, timestamp_ms=ms, key=None, value=b"x" * size) for ms in times_ms], **options)
    made.place(base_offset, epoch)
    return made


def filled(*sizes: int) -> Log:
    """A log with one batch per size; a batch of n has n records."""
    log = Log()
    for size in sizes:
        log.append(batch(log.end_offset, [log.end_offset + place for place in range(size)]))
    return log


def offsets(batches: list[Batch]) -> list[int]:
    return [one.base_offset for one in batches]


def test_reading_starts_with_the_batch_that_contains_the_offset() -> None:
    log = filled(5, 1, 4)
    assert offsets(log.read(0, 10, 2**20, True)) == [0, 5, 6]
    assert offsets(log.read(3, 10, 2**20, True)) == [0, 5, 6]
    assert offsets(log.read(9, 10, 2**20, True)) == [6]
    assert log.read(10, 10, 2**20, True) == []


def test_reading_ends_before_the_end_offset() -> None:
    log = filled(5, 1, 4)
    assert offsets(log.read(0, 5, 2**20, True)) == [0]
    assert offsets(log.read(0, 6, 2**20, True)) == [0, 5]


def test_reading_returns_whole_batches_and_at_least_one_if_asked() -> None:
    log = filled(5, 1, 4)
    first, second = (len(one) for one in log.read(0, 6, 2**20, True))
    assert offsets(log.read(0, 10, first + second, True)) == [0, 5]
    assert offsets(log.read(0, 10, first + second - 1, True)) == [0]
    assert offsets(log.read(0, 10, first - 1, True)) == [0]
    assert log.read(0, 10, first - 1, False) == []
    assert log.read(0, 10, 0, False) == []


def test_positions_count_the_bytes_between_offsets() -> None:
    log = filled(5, 1, 4)
    sizes = [len(one) for one in log.batches()]
    assert [log.position(offset) for offset in (0, 4, 5, 6, 10)] == [0, 0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
    log.delete_before(6)
    assert log.position(10) - log.position(6) == sizes[2] == log.size


def test_a_deleted_offset_inside_a_batch_keeps_the_batch() -> None:
    log = filled(5, 1, 4)
    assert log.delete_before(7)
    assert (log.start_offset, offsets(list(log.batches()))) == (7, [6])
    assert not log.delete_before(7)
    assert log.delete_before(10)
    assert (log.start_offset, log.end_offset, len(log), log.size) == (10, 10, 0, 0)
    log.append(batch(10, [1]))
    assert offsets(log.read(10, 11, 1, True)) == [10]


def test_truncation_removes_batches_epochs_and_what_is_known_of_producers() -> None:
    log = Log()
    log.append(batch(0, [1, 2], epoch=0, producer_id=7, producer_epoch=0, base_sequence=0))
    log.append(batch(2, [3], epoch=1, producer_id=7, producer_epoch=0, base_sequence=2))
    log.append(batch(3, [4], epoch=2, producer_id=8, producer_epoch=0, base_sequence=0))
    assert log.truncate_to(2)
    assert (log.end_offset, log.epochs.entries(), len(log.producers)) == (2, [(0, 0)], 1)
    state = log.producers.get(7)
    assert state is not None
    assert state.last_sequence == 1
    assert not log.truncate_to(2)
    assert log.truncate_to(1)  # inside a batch: it goes as a whole
    assert (log.end_offset, log.start_offset, log.size) == (0, 0, 0)


def test_truncating_to_the_end_forgets_an_epoch_that_wrote_nothing() -> None:
    log = filled(2)
    log.epochs.assign(4, 2)
    assert not log.truncate_to(2)
    assert log.epochs.entries() == [(0, 0)]


def test_the_first_record_from_a_time_on() -> None:
    log = Log()
    for times in ([10, 30], [20, 25], [40, 5]):
        log.append(batch(log.end_offset, times))
    assert log.find_time(0, 6) == (0, 10)
    assert log.find_time(11, 6) == (1, 30)
    assert log.find_time(31, 6) == (4, 40)
    assert log.find_time(31, 4) is None
    assert log.find_time(41, 6) is None
    log.delete_before(2)
    assert log.find_time(11, 6) == (2, 20)
    assert log.find_latest_time(6) == (4, 40)
    assert log.find_latest_time(4) == (3, 25)
    assert Log().find_latest_time(0) is None
    assert log.find_batch_time(21, 6) == (2, 25)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.lists(st.integers(0, 50), min_size=1, max_size=4)),
            st.tuples(st.just("delete"), st.integers(0, 40)),
            st.tuples(st.just("truncate"), st.integers(0, 40)),
        ),
        max_size=20,
    ),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 400),
)
def test_a_log_agrees_with_a_list(
    steps: list[tuple[str, list[int] | int]], offset: int, until: int, max_bytes: int
) -> None:
    log = Log()
    model: list[Batch] = []
    start = end = 0
    for what, value in steps:
        if isinstance(value, list):
            made = batch(end, value)
            log.append(made)
            model.append(made)
            end = made.next_offset
        elif what == "delete" and value <= end:
            start = max(start, value)
            log.delete_before(value)
            model = [one for one in model if one.last_offset >= start]
        elif what == "truncate" and start <= value < end:
            log.truncate_to(value)
            model = [one for one in model if one.last_offset < value]
            # Down to the end of the last whole batch, or to where deleting had got.
            end = model[-1].next_offset if model else log.end_offset
            start = min(start, end)
    assert list(log.batches()) == model
    assert (log.start_offset, log.end_offset) == (start, end)
    assert log.size == sum(map(len, model))
    if start <= offset <= end:
        expected: list[Batch] = []
        for one in model:
            if one.last_offset >= offset and one.base_offset < until and offset < until:
                if expected and sum(map(len, expected)) + len(one) > max_bytes:
                    break
                expected.append(one)
        assert log.read(offset, until, max_bytes, True) == expected
    times = [
        (one.base_offset + place, ms)
        for one in model
        for place, ms in enumerate(_times(one))
        if start <= one.base_offset + place < until
    ]
    assert log.find_time(offset, until) == next((pair for pair in times if pair[1] >= offset), None)


def _times(one: Batch) -> list[int]:
    from dwell.broker.record.record import read_records

    return [record.timestamp_ms for record in read_records(one)]
