"""Mutated requests against the whole core: a connection may end, an error may be answered, nothing else may happen."""

from __future__ import annotations

import random
import resource

import pytest

from dwell.broker.api.table import SERVED
from dwell.broker.host import Host
from dwell.broker.wire import request_frame
from tests.broker.core import Client, make_host, records
from tests.broker.wire.sample import sample
from tests.broker.wire.test_codec import mutated

# Requests per host: topics that mutated requests create must not pile up for ever.
PER_HOST = 2_000


def frames() -> list[bytes]:
    """One request of each API in each version, without its length."""
    return [
        request_frame(served.api, version, 1, "fuzz", sample(served.api.request, version))[4:]
        for served in SERVED
        for version in served.api.versions
    ]


def new_host() -> Host:
    host = make_host(3, {"orders": {"partitions": 8, "replication": 3}})
    Client(host).produce(records(b"tea"))
    return host


def fuzz(count: int, seed: int) -> None:
    source = random.Random(seed)
    known = frames()
    host = new_host()
    connection = host.connect(0)
    for number in range(count):
        if number % PER_HOST == PER_HOST - 1:
            host.close()
            host = new_host()
        frame = mutated(source.choice(known), source)
        if connection.is_closed or connection.in_flight is not None or source.random() < 0.05:
            # What waits goes with its client.
            connection.lost()
            connection = host.connect(source.randrange(3))
        host.receive(connection, len(frame).to_bytes(4, "big") + frame)
        if source.random() < 0.01:
            host.advance(source.choice((1, 100, 10_000)))
    # Nobody else was harmed.
    client = Client(host, next(broker.id for broker in host.brokers if ("orders", 7) in broker.partitions))
    assert client.list_offsets(-2, index=7) is not None
    host.close()


def test_mutated_requests_harm_nothing() -> None:
    fuzz(6_000, 1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_million_mutated_requests_take_no_memory() -> None:
    fuzz(10_000, 0)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fuzz(1_000_000, 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024
