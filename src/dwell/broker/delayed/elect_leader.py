"""ElectLeaders that waits until this broker's metadata shows the elected leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dwell.broker.controller.image import NO_LEADER
from dwell.broker.delayed.request import DelayedRequest
from dwell.broker.wire.error import Error

if TYPE_CHECKING:
    from dwell.broker.controller.image import Image
    from dwell.broker.request import Request


class Wanted(NamedTuple):
    topic: str
    number: int
    # The broker that must lead; None: any.
    leader: int | None
    # Its place in the response.
    response: Any

    def unmet(self, image: Image) -> str | None:
        partition = image.partition(self.topic, self.number)
        leader = NO_LEADER if partition is None else partition.leader
        if leader != NO_LEADER and self.leader in (None, leader):
            return None
        led = "has no leader" if leader == NO_LEADER else f"is led by {leader}"
        return f"{self.topic}-{self.number} {led}" + ("" if self.leader is None else f", not by {self.leader}")


class DelayedElectLeader(DelayedRequest):
    """Watched under (topic, index): the broker that was asked need not hold the partition."""

    __slots__ = ("_made", "wanted")

    kind = "elect_leader"

    def __init__(self, request: Request, timeout_ms: int, wanted: list[Wanted], response: object) -> None:
        super().__init__(request, timeout_ms, tuple([(one.topic, one.number) for one in wanted]))
        self.wanted = wanted
        self._made = response

    def try_complete(self) -> bool:
        image = self.request.broker.image
        if any(one.unmet(image) is not None for one in self.wanted):
            return False
        return self.force_complete()

    def respond(self) -> object:
        image = self.request.broker.image
        for one in self.wanted:
            if one.unmet(image) is None:
                one.response.error_code = Error.NONE
            else:
                one.response.error_code = self.request.failed(Error.REQUEST_TIMED_OUT)
        return self._made

    def unmet(self) -> str:
        image = self.request.broker.image
        return "; ".join(words for one in self.wanted if (words := one.unmet(image)) is not None)

    def key_names(self) -> tuple[str, ...]:
        return tuple(f"{one.topic}-{one.number}" for one in self.wanted)
