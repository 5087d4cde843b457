"""Both sides, started once for all tests that compare them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.oracle.apache import ApacheKafka
from tests.broker.oracle.ours import Ours

# Long enough for a produce to time out before its frozen follower leaves the ISR, short enough to wait for that too.
LAG_MS = 8_000
# A frozen node stays a member of the cluster.
THREE_NODES = {
    "replica.lag.time.max.ms": str(LAG_MS),
    "broker.session.timeout.ms": "120000",
    "auto.leader.rebalance.enable": "false",
}


def _started(kafka: ApacheKafka, ours: Ours) -> Iterator[tuple[Ours, ApacheKafka]]:
    kafka.start()
    try:
        ours.start()
        try:
            yield ours, kafka
        finally:
            ours.stop()
    finally:
        kafka.stop()


@pytest.fixture(scope="package")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ours, ApacheKafka]]:
    yield from _started(ApacheKafka(tmp_path_factory.mktemp("kafka"), 1), Ours(1))


@pytest.fixture(scope="package")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ours, ApacheKafka]]:
    ours = Ours(3, configs={"replica.lag.time.max.ms": LAG_MS})
    yield from _started(ApacheKafka(tmp_path_factory.mktemp("kafka3"), 3, THREE_NODES), ours)
