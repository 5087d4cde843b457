from __future__ import annotations

import pytest

from dwell.report import words


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (850, "850 ms"),
        (1000, "1 s"),
        (4230, "4.2 s"),
        (59_600, "1 min"),
        (200_000, "3 min 20 s"),
        (3_600_000, "1 h"),
        (5_400_000, "1 h 30 min"),
        (85_200_000, "23 h 40 min"),
        (86_399_000, "1 d"),
        (187_200_000, "2 d 4 h"),
        (604_799_000, "7 d"),
    ],
)
def test_durations_are_said_in_two_units_at_most(ms: int, said: str) -> None:
    assert words.duration(ms) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 10, "0.0 %"),
        (10, 10, "100.0 %"),
        (1, 3, "33.3 %"),
        (1, 10_000, "0.01 %"),
        (99_999, 100_000, "99.999 %"),
        (1, 10**9, "< 0.0001 %"),
        (0, 0, "none"),
    ],
)
def test_a_share_is_never_rounded_to_none_or_all(part: int, whole: int, said: str) -> None:
    assert words.share(part, whole) == said
