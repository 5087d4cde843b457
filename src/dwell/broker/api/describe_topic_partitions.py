"""DescribeTopicPartitions: topics in the order of their names, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.broker.api import operation, topic_name
from dwell.broker.api.metadata import partition
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.cluster import DESCRIBE_TOPIC_PARTITIONS

if TYPE_CHECKING:
    from dwell.broker.controller.image import PartitionImage
    from dwell.broker.request import Request

# Kafka's max.request.partition.size.limit.
MAX_PARTITIONS = 2_000


def handle(request: Request) -> object:
    body = request.body
    image = request.broker.image
    response = DESCRIBE_TOPIC_PARTITIONS.Response
    cursor = body.cursor
    names = sorted({topic.name for topic in body.topics}) if body.topics else sorted(image.topics)
    first = 0
    if cursor is not None and (cursor.partition_index < 0 or (body.topics and cursor.topic_name not in names)):
        error = request.failed(Error.INVALID_REQUEST)
        topics = [response.DescribeTopicPartitionsResponseTopic(error_code=error, name=name) for name in names]
        return response(topics=topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    left = min(body.response_partition_limit, MAX_PARTITIONS)
    topics = []
    next_cursor = None
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            bad = topic_name.problem(name) is not None
            error = request.failed(Error.INVALID_TOPIC_EXCEPTION if bad else Error.UNKNOWN_TOPIC_OR_PARTITION)
            topics.append(
                response.DescribeTopicPartitionsResponseTopic(
                    error_code=error, name=name, topic_authorized_operations=operation.TOPIC
                )
            )
            continue
        if left <= 0:
            next_cursor = response.Cursor(topic_name=name, partition_index=first)
            break
        partitions = image.partitions[name][first : first + left]
        topics.append(
            response.DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=[_partition(request, one) for one in partitions],
                topic_authorized_operations=operation.TOPIC,
            )
        )
        left -= len(partitions)
        if first + len(partitions) < len(image.partitions[name]):
            next_cursor = response.Cursor(topic_name=name, partition_index=first + len(partitions))
            break
        first = 0
    return response(topics=topics, next_cursor=next_cursor)


def _partition(request: Request, one: PartitionImage) -> object:
    described = partition(request, one, DESCRIBE_TOPIC_PARTITIONS.Response.DescribeTopicPartitionsResponsePartition)
    # Kafka's eligible leader replicas (KIP-966): there are none while nobody fell out of the ISR below the minimum.
    described.eligible_leader_replicas = []
    described.last_known_elr = []
    return described
