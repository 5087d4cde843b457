"""Who leads."""

from __future__ import annotations

from dataclasses import replace

from dwell.broker.controller.election import elect, without
from dwell.broker.controller.image import NO_LEADER, PartitionImage

PARTITION = PartitionImage(topic="t", index=0, replicas=(0, 1, 2), isr=(0, 1, 2), leader=0, leader_epoch=4)


def alive(*brokers: int) -> object:
    return lambda replica: replica in brokers


def test_a_living_leader_stays() -> None:
    assert elect(PARTITION, lambda _: True) is PARTITION


def test_the_first_living_in_sync_replica_follows_with_a_new_epoch() -> None:
    elected = elect(replace(PARTITION, isr=(0, 2)), lambda replica: replica != 0)
    assert (elected.leader, elected.leader_epoch) == (2, 5)


def test_without_a_living_in_sync_replica_there_is_no_leader_unless_unclean() -> None:
    lonely = replace(PARTITION, isr=(0,))
    assert elect(lonely, lambda replica: replica == 2).leader == NO_LEADER
    unclean = elect(lonely, lambda replica: replica == 2, unclean=True)
    assert (unclean.leader, unclean.isr) == (2, (2,))


def test_a_preferred_leader_must_be_in_sync() -> None:
    led_by_1 = replace(PARTITION, leader=1)
    assert elect(led_by_1, lambda _: True, prefer=0).leader == 0
    assert elect(replace(led_by_1, isr=(1, 2)), lambda _: True, prefer=0).leader == 1


def test_a_dead_broker_leaves_the_isr_unless_it_is_the_last() -> None:
    assert without(PARTITION, 1).isr == (0, 2)
    lonely = replace(PARTITION, isr=(1,))
    assert without(lonely, 1) is lonely
