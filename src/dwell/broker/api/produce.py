"""Produce: append batches, and with acks=all wait until they are replicated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.broker.api.place import current_leader, node_endpoints
from dwell.broker.delayed.produce import DelayedProduce, Pending
from dwell.broker.log.producer import AppendedBatch
from dwell.broker.record.batch import Batch, RecordError, check_produced, read_produced
from dwell.broker.record.record import read_records
from dwell.broker.request import NO_ANSWER, PARKED
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.produce import PRODUCE

if TYPE_CHECKING:
    from dwell.broker.broker import Broker
    from dwell.broker.replica.partition import Partition
    from dwell.broker.request import Request

TOPIC_IDS = 13
ACKS_ALL, ACKS_NONE = -1, 0
# Errors that Kafka answers without the log start offset.
BEFORE_THE_LOG = (Error.MESSAGE_TOO_LARGE, Error.CORRUPT_MESSAGE)


class Refused(Exception):
    """One partition's records are not appended."""

    def __init__(self, error: Error, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def handle(request: Request) -> object:
    body = request.body
    broker = request.broker
    acks = body.acks
    responses = []
    pending: list[Pending] = []
    appended: list[tuple[Partition, int]] = []
    leaders: set[int] = set()
    for topic in body.topic_data:
        answers = []
        for data in topic.partition_data:
            answer = PRODUCE.Response.PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            try:
                name = _topic_name(broker, topic, request.version)
                if broker.image.partition(name, data.index) is None:
                    raise Refused(Error.UNKNOWN_TOPIC_OR_PARTITION)
                batch = _read(data.records, request.version)
                partition = _leader(broker, name, data.index, acks)
                offset = _append(partition, batch, acks, answer)
            except Refused as refused:
                answer.error_code = request.failed(refused.error)
                answer.error_message = refused.message
                if refused.error is Error.NOT_LEADER_OR_FOLLOWER:
                    group = PRODUCE.Response.LeaderIdAndEpoch
                    answer.current_leader = current_leader(broker, name, data.index, group, leaders)
                continue
            appended.append((partition, offset))
            if acks == ACKS_ALL:
                # Without followers the high watermark is there already: nothing to wait for.
                error = partition.reached(offset)
                if error is None:
                    answer.error_code = Error.REQUEST_TIMED_OUT
                    pending.append(Pending(partition, offset, answer))
                else:
                    answer.error_code = request.failed(error)
        responses.append(
            PRODUCE.Response.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    request.partitions = tuple(appended)
    if acks == ACKS_NONE:
        return _close_on_error(request)
    endpoints = node_endpoints(broker, leaders, PRODUCE.Response.NodeEndpoint) if leaders else []
    response = PRODUCE.Response(responses=responses, node_endpoints=endpoints)
    if not pending:
        return response
    DelayedProduce(request, body.timeout_ms, pending, response).park()
    return PARKED


def _close_on_error(request: Request) -> object:
    """With acks=0 there is no answer to put an error into: closing makes the client refresh its metadata."""
    if request.errors and request.connection is not None:
        names = ", ".join(error.name for error in request.errors)
        request.connection.close(f"produce with acks=0 failed: {names}")
    return NO_ANSWER


def _topic_name(broker: Broker, topic: Any, version: int) -> str:
    if version < TOPIC_IDS:
        return str(topic.name)
    name = broker.image.names.get(topic.topic_id)
    if name is None:
        raise Refused(Error.UNKNOWN_TOPIC_ID)
    return name


def _leader(broker: Broker, topic: str, index: int, acks: int) -> Partition:
    if acks not in (ACKS_ALL, ACKS_NONE, 1):
        raise Refused(Error.INVALID_REQUIRED_ACKS)
    partition = broker.partitions.get((topic, index))
    if partition is not None and partition.is_leader:
        return partition
    raise Refused(Error.NOT_LEADER_OR_FOLLOWER)


def _read(records: Any, version: int) -> Batch:
    try:
        return read_produced(records, version=version)
    except RecordError as error:
        raise Refused(error.error, str(error)) from error


def _append(partition: Partition, batch: Batch, acks: int, answer: Any) -> int:
    """Append one partition's batch and fill in its answer; returns the offset after its last record."""
    if acks == ACKS_ALL and partition.is_under_min_isr:
        answer.log_start_offset = partition.log.start_offset
        raise Refused(Error.NOT_ENOUGH_REPLICAS)
    try:
        check_produced(batch, max_bytes=partition.config.max_message_bytes)
        if partition.config.is_compacted:
            _check_keys(batch, answer)
    except RecordError as error:
        if error.error not in BEFORE_THE_LOG:
            answer.log_start_offset = partition.log.start_offset
        raise Refused(error.error, str(error)) from error
    if batch.has_producer:
        found = partition.log.producers.check(batch)
        if found is not None:
            answer.log_start_offset = partition.log.start_offset
        if isinstance(found, Error):
            raise Refused(found)
        if isinstance(found, AppendedBatch):
            answer.base_offset = found.base_offset
            # A duplicate is answered with a time even where producers set the times: so does Kafka.
            answer.log_append_time_ms = found.timestamp_ms
            return found.last_offset + 1
    host = partition.broker.host
    if not host.memory.take(len(batch)):
        raise Refused(Error.KAFKA_STORAGE_ERROR, f"the cluster holds {host.memory.limit:,} bytes; see memory_bytes")
    partition.append(batch)
    answer.base_offset = batch.base_offset
    answer.log_start_offset = partition.log.start_offset
    if batch.is_log_append_time:
        answer.log_append_time_ms = batch.max_timestamp
    return batch.next_offset


def _check_keys(batch: Batch, answer: Any) -> None:
    words = "a record of a compacted topic needs a key"
    answer.record_errors = [
        PRODUCE.Response.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=words)
        for index, record in enumerate(read_records(batch))
        if record.key is None
    ]
    if answer.record_errors:
        raise RecordError(Error.INVALID_RECORD, words)
