"""A consumer's fetch that waits for enough bytes.

What one partition contributes is one subtraction: the partition keeps the position of its high watermark in bytes, the
operation keeps the position of its fetch offset. Reading happens once, when the fetch completes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from dwell.broker.delayed.request import DelayedRequest
from dwell.broker.wire.error import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from dwell.broker.replica.partition import Partition
    from dwell.broker.request import Request

NOT_SENT = -2
# Errors of topics and partitions that this broker does not know.
UNKNOWN = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID)


@final
class FetchPartition:
    """One partition of a fetch, as the client asked for it and as this broker found it. Sessions keep it."""

    __slots__ = (
        "current_leader_epoch",
        "error",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "offset",
        "partition",
        "position",
        "sent_high_watermark",
        "sent_log_start",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str | None, topic_id: bytes | None, index: int) -> None:
        # The name in versions up to 12, the id from 13 on.
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        # Found by `find`: the partition, the error or NONE, the byte position of the offset.
        self.partition: Partition | None = None
        self.error = Error.NONE
        self.position = 0
        # What a session's last answer said; the next one leaves the partition out if nothing differs.
        self.sent_high_watermark = NOT_SENT
        self.sent_log_start = NOT_SENT

    def ask(self, wanted: Any) -> None:
        """Take over what the client asks for."""
        self.offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.current_leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch

    def judge(self) -> Error:
        """The error this partition answers now, NONE if it can be read. Cheap: it runs at every check."""
        partition = self.partition
        if partition is None:
            return self.error
        if partition.is_deleted:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if not partition.is_leader:
            return Error.NOT_LEADER_OR_FOLLOWER
        epoch = self.current_leader_epoch
        if epoch >= 0 and epoch != partition.image.leader_epoch:
            return Error.FENCED_LEADER_EPOCH if epoch < partition.image.leader_epoch else Error.UNKNOWN_LEADER_EPOCH
        log = partition.log
        if not log.start_offset <= self.offset <= log.end_offset or self.last_fetched_epoch > log.epochs.last >= 0:
            return Error.OFFSET_OUT_OF_RANGE
        return Error.NONE

    @property
    def is_unknown(self) -> bool:
        """Whether there was no such partition when the request came. That alone ends no wait: so does Kafka."""
        return self.partition is None and self.error in UNKNOWN

    def diverging(self) -> tuple[int, int] | None:
        """Where the client's log and this one part, if the client says which epoch it read last."""
        if self.last_fetched_epoch < 0 or self.partition is None:
            return None
        log = self.partition.log
        epoch, end = log.epochs.end_offset(self.last_fetched_epoch, log.end_offset)
        return (epoch, end) if epoch < self.last_fetched_epoch or end < self.offset else None

    @property
    def readable(self) -> int:
        """Bytes below the high watermark from the offset on, at most `max_bytes`."""
        assert self.partition is not None
        size = self.partition.high_position - self.position
        if size <= 0 or self.offset >= self.partition.high_watermark:
            return 0
        return size if size < self.max_bytes else self.max_bytes


class DelayedFetch(DelayedRequest):
    """Completes when enough can be read in all partitions together, or when one of them can only answer an error."""

    __slots__ = ("_read", "min_bytes", "partitions")

    kind = "fetch"

    def __init__(
        self,
        request: Request,
        max_wait_ms: int,
        min_bytes: int,
        partitions: list[FetchPartition],
        read: Callable[[], object],
    ) -> None:
        super().__init__(request, max_wait_ms, tuple([one.partition for one in partitions if one.partition]))
        self.partitions = partitions
        self.min_bytes = min_bytes
        self._read = read

    def try_complete(self) -> bool:
        size = 0
        for one in self.partitions:
            if not one.judge():
                size += one.readable
            elif not one.is_unknown:
                return self.force_complete()
        return size >= self.min_bytes and self.force_complete()

    def respond(self) -> object:
        return self._read()

    def unmet(self) -> str:
        size = sum(one.readable for one in self.partitions if not one.judge())
        missing = f"{size:,} of {self.min_bytes:,} bytes"
        if len(self.partitions) > 3:
            return f"{missing} in {len(self.partitions)} partitions"
        places = ", ".join(f"{one.partition.name} from {one.offset:,}" for one in self.partitions if one.partition)
        return f"{missing} in {places}"
