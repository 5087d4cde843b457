"""CreateTopics, CreatePartitions and DeleteTopics that wait until this broker's metadata shows the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dwell.broker.controller.image import NO_LEADER
from dwell.broker.delayed.request import DelayedRequest
from dwell.broker.wire.error import Error

if TYPE_CHECKING:
    from dwell.broker.controller.image import Image
    from dwell.broker.request import Request


class Wanted(NamedTuple):
    """What the metadata must show of one topic."""

    name: str
    # So many partitions, each with a leader; 0: the topic must be gone.
    partitions: int
    # Its place in the response.
    response: Any
    # The id of a topic that must be gone: a new one may have its name.
    topic_id: bytes | None = None

    def unmet(self, image: Image) -> str | None:
        """What is missing, in words; None if nothing is."""
        topic = image.topics.get(self.name)
        if self.partitions == 0:
            return None if topic is None or topic.id != self.topic_id else f"{self.name} is still there"
        if topic is None:
            return f"{self.name} is not known to this broker"
        partitions = image.partitions[self.name]
        led = sum(partition.leader != NO_LEADER for partition in partitions)
        if led < self.partitions:
            return f"{self.name} has a leader for {led} of {self.partitions} partitions"
        return None


class DelayedTopic(DelayedRequest):
    """Completes when nothing is missing of any topic. What times out goes on in the controller."""

    __slots__ = ("_made", "wanted")

    kind = "topic"

    def __init__(self, request: Request, timeout_ms: int, wanted: list[Wanted], response: object) -> None:
        super().__init__(request, timeout_ms, tuple([one.name for one in wanted]))
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
            done = one.unmet(image) is None
            one.response.error_code = Error.NONE if done else self.request.failed(Error.REQUEST_TIMED_OUT)
            topic = image.topics.get(one.name)
            if done and one.partitions and topic is not None and hasattr(one.response, "topic_id"):
                one.response.topic_id = topic.id
        return self._made

    def unmet(self) -> str:
        image = self.request.broker.image
        return "; ".join(words for one in self.wanted if (words := one.unmet(image)) is not None)
