"""Idempotent producers: what is a duplicate, what is a gap."""

from __future__ import annotations

import pytest

from dwell.broker.log.producer import AppendedBatch, Producers
from dwell.broker.record.batch import Batch
from dwell.broker.record.record import Record, write_batch
from dwell.broker.wire.error import Error


def batch(sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0) -> Batch:
    made = write_batch(
        [Record(offset=0, timestamp_ms=0, key=None, value=b"") for _ in range(count)],
        producer_id=9,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    made.place(offset, 0)
    return made


@pytest.fixture
def producers() -> Producers:
    """One producer with seven batches of one record: sequences and offsets 0 to 6."""
    made = Producers()
    for sequence in range(7):
        made.append(batch(sequence, offset=sequence))
    return made


def test_a_producer_without_state_may_start_anywhere() -> None:
    assert Producers().check(batch(123)) is None


def test_the_next_sequence_is_taken_and_a_gap_is_not(producers: Producers) -> None:
    assert producers.check(batch(7)) is None
    assert producers.check(batch(8)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_known_with_their_offsets(producers: Producers) -> None:
    found = producers.check(batch(2))
    assert isinstance(found, AppendedBatch)
    assert (found.base_offset, found.last_offset) == (2, 2)
    assert producers.check(batch(1)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_same_first_sequence_with_another_last_one_is_no_duplicate(producers: Producers) -> None:
    assert producers.check(batch(6, 2)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero(producers: Producers) -> None:
    producers.append(batch(0, epoch=3))
    assert producers.check(batch(1, epoch=2)) is Error.INVALID_PRODUCER_EPOCH
    assert producers.check(batch(0, epoch=4)) is None
    assert producers.check(batch(1, epoch=4)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero() -> None:
    producers = Producers()
    producers.append(batch(2**31 - 2, 2))
    assert producers.check(batch(0)) is None
    assert producers.check(batch(1)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.append(batch(2**31 - 1, 2, epoch=1))  # its second record has sequence 0
    assert producers.check(batch(1, epoch=1)) is None
