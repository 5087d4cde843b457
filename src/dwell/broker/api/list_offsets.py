"""ListOffsets: the first, the last, or the first offset from a time on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dwell.broker.delayed.fetch import FetchPartition
from dwell.broker.record.batch import RecordError
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.fetch import LIST_OFFSETS
from dwell.errors import MissingExtra

if TYPE_CHECKING:
    from dwell.broker.broker import Broker
    from dwell.broker.replica.partition import Partition
    from dwell.broker.request import Request

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
# Tiered storage, which there is none of here: answered with offset -1, as Kafka does without it.
LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -5, -6
# The first version that knows each of them.
SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED = 1
# The first version of the error; before it, LEADER_NOT_AVAILABLE says the same.
OFFSET_NOT_AVAILABLE_VERSION = 5


def handle(request: Request) -> object:
    response = LIST_OFFSETS.Response
    return response(
        topics=[
            response.ListOffsetsTopicResponse(name=topic.name, partitions=_partitions(request, topic))
            for topic in request.body.topics
        ]
    )


def _partitions(request: Request, topic: Any) -> list[Any]:
    """The answers of one topic. A partition that is asked for twice is an error, answered once."""
    asked = Counter(one.partition_index for one in topic.partitions)
    answers = {}
    for one in topic.partitions:
        index = one.partition_index
        if asked[index] == 1:
            answers[index] = _partition(request, topic.name, one)
        elif index not in answers:
            error = request.failed(Error.INVALID_REQUEST)
            answers[index] = LIST_OFFSETS.Response.ListOffsetsPartitionResponse(partition_index=index, error_code=error)
    return list(answers.values())


def _partition(request: Request, topic: str, asked: Any) -> Any:
    answer = LIST_OFFSETS.Response.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if request.version < SINCE.get(asked.timestamp, 0):
        answer.error_code = request.failed(Error.UNSUPPORTED_VERSION)
        return answer
    found = led_partition(request.broker, topic, asked.partition_index, asked.current_leader_epoch)
    if isinstance(found, Error):
        answer.error_code = request.failed(found)
        return answer
    try:
        error = _find(request, found, asked.timestamp, answer)
    except RecordError as wrong:
        error = wrong.error
    if error:
        answer.error_code = request.failed(error)
        answer.offset = answer.timestamp = answer.leader_epoch = -1
    return answer


def led_partition(broker: Broker, topic: str, index: int, current_leader_epoch: int) -> Partition | Error:
    """The partition if this broker leads it and the client's idea of the leader epoch is right."""
    partition = broker.partitions.get((topic, index))
    if partition is None:
        known = broker.image.partition(topic, index) is not None
        return Error.NOT_LEADER_OR_FOLLOWER if known else Error.UNKNOWN_TOPIC_OR_PARTITION
    one = FetchPartition(topic, None, index)
    one.partition = partition
    one.current_leader_epoch = current_leader_epoch
    one.offset = partition.log.start_offset
    return one.judge() or partition


def _find(request: Request, partition: Partition, timestamp: int, answer: Any) -> Error:
    log = partition.log
    committed = request.body.isolation_level == READ_COMMITTED
    end = partition.last_stable_offset if committed else partition.high_watermark
    # A new leader does not know yet how far its predecessor's high watermark was.
    is_lagging = partition.high_watermark < partition.epoch_start
    not_available = (
        Error.OFFSET_NOT_AVAILABLE if request.version >= OFFSET_NOT_AVAILABLE_VERSION else Error.LEADER_NOT_AVAILABLE
    )
    if timestamp == LATEST:
        if is_lagging:
            return not_available
        answer.offset = end
        answer.leader_epoch = partition.image.leader_epoch
        return Error.NONE
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.start_offset
        answer.leader_epoch = log.epochs.epoch_of(log.start_offset)
        return Error.NONE
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Error.NONE
    if timestamp < MAX_TIMESTAMP:
        return Error.UNSUPPORTED_VERSION
    try:
        found = log.find_latest_time(end) if timestamp == MAX_TIMESTAMP else log.find_time(timestamp, end)
    except MissingExtra:
        # Without the codec a compressed batch cannot be looked into: its first offset is close enough to read from.
        found = log.find_batch_time(timestamp, end)
    if found is None:
        return not_available if is_lagging else Error.NONE
    answer.offset, answer.timestamp = found
    answer.leader_epoch = log.epochs.epoch_of(answer.offset)
    return Error.NONE
