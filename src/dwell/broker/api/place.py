"""Where a partition is led, for answers of a broker that does not lead it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dwell.broker.wire.message.fetch import FETCH

if TYPE_CHECKING:
    from dwell.broker.broker import Broker


def current_leader(broker: Broker, topic: str, index: int, group: type[Any], leaders: set[int]) -> Any:
    """The leader this broker knows of, in the response's own group; None if it knows none. Noted in `leaders`."""
    partition = broker.image.partition(topic, index)
    if partition is None:
        return None
    leaders.add(partition.leader)
    return group(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


def node_endpoints(broker: Broker, leaders: Iterable[int], group: type[Any] | None = None) -> list[Any]:
    """The addresses of those leaders, so that the client can go there without asking for metadata."""
    if group is None:
        group = FETCH.Response.NodeEndpoint
    known = [broker.image.brokers[leader] for leader in leaders if broker.image.alive(leader)]
    return [group(node_id=one.id, host=one.host, port=one.port, rack=one.rack) for one in known]
