"""Who leads a partition: a pure function of its replicas, its ISR and who is alive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dwell.broker.controller.image import NO_LEADER, PartitionImage


def elect(
    partition: PartitionImage, alive: Callable[[int], bool], *, unclean: bool = False, prefer: int | None = None
) -> PartitionImage:
    """`partition` with the leader it should have now; the same object if nothing changes.

    The leader stays if it is alive and nobody else is preferred. Otherwise the first living in-sync replica leads; with
    `unclean` any living replica, which then is the whole ISR, and what the others had beyond its log is lost.
    """
    in_sync = [replica for replica in partition.replicas if replica in partition.isr and alive(replica)]
    isr = partition.isr
    if prefer is not None and prefer in in_sync:
        leader = prefer
    elif partition.leader in in_sync:
        leader = partition.leader
    elif in_sync:
        leader = in_sync[0]
    else:
        leader = NO_LEADER
        if unclean:
            leader = next((replica for replica in partition.replicas if alive(replica)), NO_LEADER)
            if leader != NO_LEADER:
                isr = (leader,)
    if leader == partition.leader and isr == partition.isr:
        return partition
    epoch = partition.leader_epoch + (leader != partition.leader)
    return replace(partition, leader=leader, isr=isr, leader_epoch=epoch, partition_epoch=partition.partition_epoch + 1)


def without(partition: PartitionImage, broker_id: int) -> PartitionImage:
    """`partition` after `broker_id` died: out of the ISR, unless it is the last one in it."""
    isr = tuple(replica for replica in partition.isr if replica != broker_id)
    if not isr or isr == partition.isr:
        return partition
    return replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)
