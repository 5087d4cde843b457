"""Whole numbers: what counts as one, and where they end."""

from __future__ import annotations

from array import array

import pytest

from dwell.errors import InvalidArgument, InvalidType
from dwell.number import FOREVER_MS, LONG_AGO_MS, at_least, between, int64s, later, whole_number


def test_whole_numbers_saturate_at_64_bits() -> None:
    assert whole_number("n", 5) == 5
    assert whole_number("n", 2**70) == FOREVER_MS
    assert whole_number("n", -(2**70)) == LONG_AGO_MS


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_the_error_names_the_argument_its_unit_if_it_has_one_and_the_value(value: object) -> None:
    with pytest.raises(InvalidType, match=f"delay_ms must be an int of milliseconds, not .*: {value!r}"):
        whole_number("delay_ms", value)  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="wheel_size must be an int, not"):
        whole_number("wheel_size", value)  # type: ignore[arg-type]


def test_a_long_value_is_not_printed_whole() -> None:
    with pytest.raises(InvalidType) as raised:
        whole_number("delay_ms", list(range(100_000)))  # type: ignore[arg-type]
    assert len(str(raised.value)) < 200
    with pytest.raises(InvalidType) as raised:
        int64s("delays_ms", "1" * 100_000)
    assert len(str(raised.value)) < 200


def test_bounds() -> None:
    assert at_least("n", 3, 3) == 3
    assert between("n", 3, 3, 3) == 3
    with pytest.raises(InvalidArgument, match="n must be at least 3, not 2"):
        at_least("n", 2, 3)
    with pytest.raises(InvalidArgument, match="n must be at most 4, not 5"):
        between("n", 5, 3, 4)


def test_adding_saturates_and_a_negative_delay_is_none() -> None:
    assert later(10, 5) == 15
    assert later(10, -5) == 10
    assert later(10, FOREVER_MS) == FOREVER_MS


def test_int64s_views_a_buffer_and_copies_a_sequence() -> None:
    buffer = array("q", [1, 2])
    view = int64s("n", buffer)
    buffer[0] = 7
    assert list(view) == [7, 2]
    assert list(int64s("n", (3, 4))) == list(int64s("n", range(3, 5))) == [3, 4]
    assert list(int64s("n", [])) == []


@pytest.mark.parametrize("values", [5, "ab", b"12345678", array("i", [1]), array("d", [1.0]), None, memoryview(b"x")])
def test_other_things_are_refused(values: object) -> None:
    with pytest.raises(InvalidType, match="n must be"):
        int64s("n", values)


def test_the_item_that_is_no_int_is_named() -> None:
    with pytest.raises(InvalidType, match=r"n\[2\] must be an int, not str: 'x'"):
        int64s("n", [1, 2, "x"])
