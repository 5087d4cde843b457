"""Which brokers hold which partitions.

Kafka's way, but always starting at the first broker, so that a test knows: the leader of partition p is broker p modulo
their number. Further replicas follow with a shift that grows by one per round, which spreads a failed broker's
leaderships over all others. With racks the brokers are first put in an order that alternates racks.

    three brokers, two replicas:   p0 [0, 1]   p1 [1, 2]   p2 [2, 0]   p3 [0, 2]   p4 [1, 0]   p5 [2, 1]
"""

from __future__ import annotations

from collections.abc import Sequence

from dwell.broker.controller.image import BrokerImage


def assign(brokers: Sequence[BrokerImage], first: int, count: int, replication: int) -> list[tuple[int, ...]]:
    """The replicas of partitions `first` to `first + count - 1`, the preferred leader first."""
    order = alternate(brokers)
    racks = {broker.id: broker.rack for broker in brokers}
    distinct = len({rack for rack in racks.values() if rack is not None})
    assignments = []
    for partition in range(first, first + count):
        start = partition % len(order)
        shift = partition // len(order)
        others = [order[(start + 1 + (shift + step) % (len(order) - 1)) % len(order)] for step in range(len(order) - 1)]
        chosen = [order[start]]
        used = {racks[order[start]]}
        for one in others:
            # While there is a rack without a replica, the next one goes there.
            if len(chosen) < replication and (len(used) >= distinct or racks[one] not in used):
                chosen.append(one)
                used.add(racks[one])
        chosen += [one for one in others if one not in chosen][: replication - len(chosen)]
        assignments.append(tuple(chosen))
    return assignments


def alternate(brokers: Sequence[BrokerImage]) -> list[int]:
    """Broker ids, one of each rack in turn."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        by_rack.setdefault(broker.rack, []).append(broker.id)
    if len(by_rack) < 2:
        return [broker_id for ids in by_rack.values() for broker_id in ids]
    queues = [ids for _, ids in sorted(by_rack.items(), key=lambda item: item[0] or "")]
    order: list[int] = []
    while any(queues):
        order += [ids.pop(0) for ids in queues if ids]
    return order
