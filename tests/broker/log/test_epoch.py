"""Where leader epochs start and end."""

from __future__ import annotations

from dwell.broker.log.epoch import LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def test_an_epoch_ends_where_the_next_one_starts_and_the_last_at_the_log_end() -> None:
    made = epochs((0, 0), (3, 40), (4, 55))
    assert made.end_offset(0, 60) == (0, 40)
    assert made.end_offset(2, 60) == (0, 40)
    assert made.end_offset(3, 60) == (3, 55)
    assert made.end_offset(4, 60) == (4, 60)


def test_an_epoch_newer_than_all_and_no_epoch_are_unknown() -> None:
    assert epochs((0, 0)).end_offset(1, 10) == (-1, -1)
    assert epochs().end_offset(0, 10) == (-1, -1)
    assert epochs((0, 0)).end_offset(-1, 10) == (-1, -1)


def test_an_epoch_older_than_all_known_ends_at_the_first_start() -> None:
    assert epochs((5, 20)).end_offset(3, 60) == (3, 20)


def test_an_epoch_that_wrote_nothing_is_forgotten_when_the_next_starts_at_the_same_offset() -> None:
    made = epochs((0, 0), (1, 7), (2, 7))
    assert made.entries() == [(0, 0), (2, 7)]


def test_an_epoch_that_is_known_does_not_move() -> None:
    assert epochs((1, 7), (1, 9), (0, 12)).entries() == [(1, 7)]


def test_truncation_from_either_end() -> None:
    made = epochs((0, 0), (3, 40), (4, 55))
    made.truncate_from_end(55)
    assert made.entries() == [(0, 0), (3, 40)]
    made.truncate_from_start(45)
    assert made.entries() == [(3, 45)]
    assert made.last == 3
    assert made.epoch_of(44) == -1
    assert made.epoch_of(50) == 3
