"""Our cluster as a side of the comparison, with the settings Apache Kafka's nodes have."""

from __future__ import annotations

from typing import Any

from dwell.broker import Cluster


class Ours:
    name = "dwell"

    def __init__(self, brokers: int, **options: Any) -> None:
        self.brokers = brokers
        self.cluster = Cluster(brokers=brokers, replication=1, **options)

    def start(self) -> None:
        self.cluster.__enter__()

    def stop(self) -> None:
        self.cluster.__exit__(None, None, None)

    def address(self, node: int) -> tuple[str, int]:
        host, port = self.cluster.broker(node).address.rsplit(":", 1)
        return host, int(port)

    def freeze(self, node: int) -> None:
        self.cluster.broker(node).freeze()

    def thaw(self, node: int) -> None:
        self.cluster.broker(node).thaw()

    def move_leader(self, topic: str, to: int) -> None:
        self.cluster.partition(topic, 0).move_leader(to)
