"""Which brokers hold which partitions."""

from __future__ import annotations

from collections import Counter

from dwell.broker.controller.assignment import assign
from dwell.broker.controller.image import BrokerImage


def brokers(*racks: str | None) -> list[BrokerImage]:
    return [BrokerImage(id=number, host="h", port=1, rack=rack) for number, rack in enumerate(racks)]


def test_the_leader_of_partition_p_is_broker_p_modulo_their_number() -> None:
    assert assign(brokers(None, None, None), 0, 6, 2) == [(0, 1), (1, 2), (2, 0), (0, 2), (1, 0), (2, 1)]


def test_new_partitions_go_on_where_the_old_ones_ended() -> None:
    three = brokers(None, None, None)
    assert assign(three, 0, 7, 3)[4:] == assign(three, 4, 3, 3)


def test_one_broker_holds_everything() -> None:
    assert assign(brokers(None), 0, 2, 1) == [(0,), (0,)]


def test_racks_get_one_replica_each_before_any_gets_two() -> None:
    six = brokers("a", "a", "b", "b", "c", "c")
    racks = {one.id: one.rack for one in six}
    assignments = assign(six, 0, 12, 3)
    assert all(len({racks[replica] for replica in replicas}) == 3 for replicas in assignments)
    assert all(len(set(replicas)) == 3 for replicas in assignments)
    assert set(Counter(replicas[0] for replicas in assignments).values()) == {2}


def test_more_replicas_than_racks_are_different_brokers() -> None:
    assert all(len(set(replicas)) == 3 for replicas in assign(brokers("a", "a", "b"), 0, 9, 3))
