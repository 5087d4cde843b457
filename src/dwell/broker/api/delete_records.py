"""DeleteRecords: move the log start, wait until every living replica has moved its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.broker.api.list_offsets import led_partition
from dwell.broker.delayed.delete_records import DelayedDeleteRecords, Pending
from dwell.broker.request import PARKED
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.topic import DELETE_RECORDS

if TYPE_CHECKING:
    from dwell.broker.request import Request

HIGH_WATERMARK = -1
ANY_EPOCH = -1


def handle(request: Request) -> object:
    body = request.body
    response = DELETE_RECORDS.Response
    topics = []
    pending: list[Pending] = []
    for topic in body.topics:
        answers = []
        for asked in topic.partitions:
            answer = response.DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
            answers.append(answer)
            _delete(request, topic.name, asked, answer, pending)
        topics.append(response.DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    made = response(topics=topics)
    if not pending:
        return made
    operation = DelayedDeleteRecords(request, body.timeout_ms, pending, made)
    operation.park()
    return PARKED


def _delete(request: Request, topic: str, asked: Any, answer: Any, pending: list[Pending]) -> None:
    found = led_partition(request.broker, topic, asked.partition_index, ANY_EPOCH)
    if isinstance(found, Error):
        answer.error_code = request.failed(found)
        return
    if not found.config.may_delete:
        answer.error_code = request.failed(Error.POLICY_VIOLATION)
        return
    offset = found.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if offset < 0 or offset > found.high_watermark:
        answer.error_code = request.failed(Error.OFFSET_OUT_OF_RANGE)
        return
    found.delete_before(offset)
    answer.error_code = Error.REQUEST_TIMED_OUT
    pending.append(Pending(found, offset, answer))
