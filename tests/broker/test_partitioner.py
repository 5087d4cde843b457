"""Keys go where other clients would put them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwell.broker.partitioner import murmur2, partition_of

kafka = pytest.importorskip("kafka.partitioner.default")


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_other_clients(data: bytes) -> None:
    assert murmur2(data) == kafka.murmur2(data) & 0xFFFFFFFF
    assert partition_of(data, 7) == (kafka.murmur2(data) & 0x7FFFFFFF) % 7
