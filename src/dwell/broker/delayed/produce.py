"""A produce with acks=all that waits for its records to be on every in-sync replica."""

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
    """One partition of the request that is not decided."""

    partition: Partition
    # The high watermark that is needed.
    required: int
    # Its place in the response; its error is REQUEST_TIMED_OUT until it is decided.
    response: Any


class DelayedProduce(DelayedRequest):
    """Completes when each partition has reached its offset or failed. The append is never undone."""

    __slots__ = ("_made", "pending")

    kind = "produce"

    def __init__(self, request: Request, timeout_ms: int, pending: list[Pending], response: object) -> None:
        super().__init__(request, timeout_ms, tuple([one.partition for one in pending]))
        self.pending = pending
        self._made = response

    def try_complete(self) -> bool:
        undecided = []
        for one in self.pending:
            error = one.partition.reached(one.required)
            if error is None:
                undecided.append(one)
            else:
                one.response.error_code = error
                if error:
                    self.request.failed(error)
        self.pending = undecided
        return not undecided and self.force_complete()

    def respond(self) -> object:
        if self.pending:
            self.request.failed(Error.REQUEST_TIMED_OUT)
        return self._made

    def unmet(self) -> str:
        return "; ".join(_unmet(one.partition, one.required) for one in self.pending)


def _unmet(partition: Partition, required: int) -> str:
    words = f"{partition.name} must reach {required:,}; high watermark {partition.high_watermark:,}"
    if partition.is_under_min_isr:
        words += f", {len(partition.image.isr)} of {partition.min_insync} replicas in sync"
    behind = [
        f"replica {replica} {_place(follower)}{partition.broker.host.state_of(replica)}"
        for replica, follower in partition.followers.items()
        if follower.log_end < required and partition.counts(replica, follower)
    ]
    return ", ".join([words, *behind])


def _place(follower: Follower) -> str:
    # A new leader knows of nobody until it is asked.
    return "has not fetched yet" if follower.log_end == UNKNOWN else f"is at {follower.log_end:,}"
