"""OffsetForLeaderEpoch: where the records of a leader epoch end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.broker.api.list_offsets import led_partition
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.fetch import OFFSET_FOR_LEADER_EPOCH

if TYPE_CHECKING:
    from dwell.broker.request import Request


def handle(request: Request) -> object:
    response = OFFSET_FOR_LEADER_EPOCH.Response
    return response(
        topics=[
            response.OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_partition(request, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.body.topics
        ]
    )


def _partition(request: Request, topic: str, asked: Any) -> Any:
    answer = OFFSET_FOR_LEADER_EPOCH.Response.EpochEndOffset(partition=asked.partition)
    found = led_partition(request.broker, topic, asked.partition, asked.current_leader_epoch)
    if isinstance(found, Error):
        answer.error_code = request.failed(found)
        return answer
    log = found.log
    answer.leader_epoch, answer.end_offset = log.epochs.end_offset(asked.leader_epoch, log.end_offset)
    return answer
