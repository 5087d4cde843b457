"""A DeleteRecords that waits until every living replica has moved its log start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dwell.broker.delayed.request import DelayedRequest
from dwell.broker.replica.follower import UNKNOWN
from dwell.broker.wire.error import Error

if TYPE_CHECKING:
    from dwell.broker.replica.follower import Follower
    from dwell.broker.replica.partition import Partition
    from dwell.broker.request import Request


class Pending(NamedTuple):
    partition: Partition
    required: int
    response: Any


class DelayedDeleteRecords(DelayedRequest):
    """Completes when the low watermark of each partition has reached its offset, or the partition has failed."""

    __slots__ = ("_made", "pending")

    kind = "delete_records"

    def __init__(self, request: Request, timeout_ms: int, pending: list[Pending], response: object) -> None:
        super().__init__(request, timeout_ms, tuple([one.partition for one in pending]))
        self.pending = pending
        self._made = response

    def try_complete(self) -> bool:
        undecided = []
        for one in self.pending:
            partition = one.partition
            if partition.is_deleted:
                one.response.error_code = self.request.failed(Error.UNKNOWN_TOPIC_OR_PARTITION)
            elif not partition.is_leader:
                one.response.error_code = self.request.failed(Error.NOT_LEADER_OR_FOLLOWER)
            elif partition.low_watermark >= one.required:
                one.response.error_code = Error.NONE
                one.response.low_watermark = partition.low_watermark
            else:
                undecided.append(one)
        self.pending = undecided
        return not undecided and self.force_complete()

    def respond(self) -> object:
        if self.pending:
            self.request.failed(Error.REQUEST_TIMED_OUT)
        return self._made

    def unmet(self) -> str:
        return "; ".join(_unmet(one.partition, one.required) for one in self.pending)


def _unmet(partition: Partition, required: int) -> str:
    words = f"{partition.name} must start at {required:,}"
    if partition.low_watermark != UNKNOWN:
        words += f"; low watermark {partition.low_watermark:,}"
    behind = [
        f"replica {replica} {_place(follower)}{partition.broker.host.state_of(replica)}"
        for replica, follower in partition.followers.items()
        if partition.broker.image.alive(replica) and follower.log_start < required
    ]
    return ", ".join([words, *behind])


def _place(follower: Follower) -> str:
    return "has not fetched yet" if follower.log_start == UNKNOWN else f"starts at {follower.log_start:,}"
