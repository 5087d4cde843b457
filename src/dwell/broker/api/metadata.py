"""Metadata: brokers, topics and leaders, as this broker knows them. Unknown topics are created on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.broker.api import operation, topic_name
from dwell.broker.controller.image import NO_LEADER, PartitionImage
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.cluster import METADATA

if TYPE_CHECKING:
    from dwell.broker.broker import Broker
    from dwell.broker.request import Request

NO_ID = bytes(16)
# In version 0 an empty list asks for all topics; later, null does.
NULL_MEANS_ALL = 1
# The fields for ids are there from version 10 on, but only from here on may they be used.
BY_ID = 12


def handle(request: Request) -> object:
    body = request.body
    broker = request.broker
    image = broker.image
    asked = body.topics
    if request.version < BY_ID and any(one.name is None or one.topic_id != NO_ID for one in asked or ()):
        error = request.failed(Error.INVALID_REQUEST)
        refused = [METADATA.Response.MetadataResponseTopic(error_code=error, name=one.name or "") for one in asked]
        return METADATA.Response(topics=refused)
    if asked is None or (not asked and request.version < NULL_MEANS_ALL):
        topics = [_topic(request, name) for name in image.topics]
    else:
        may_create = body.allow_auto_topic_creation and broker.host.config["auto.create.topics.enable"]
        topics = [_asked(request, one, may_create) for one in asked]
    response = METADATA.Response(
        brokers=[
            METADATA.Response.MetadataResponseBroker(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
            for one in image.alive_brokers()
        ],
        cluster_id=broker.host.cluster_id,
        controller_id=broker.host.controller.id,
        topics=topics,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operation.CLUSTER
    return response


def _asked(request: Request, asked: Any, may_create: bool) -> object:
    broker = request.broker
    name = asked.name
    if asked.topic_id != NO_ID:
        name = broker.image.names.get(asked.topic_id)
        if name is None:
            error = request.failed(Error.UNKNOWN_TOPIC_ID)
            return METADATA.Response.MetadataResponseTopic(error_code=error, name=None, topic_id=asked.topic_id)
    if topic_name.problem(name) is not None:
        error = request.failed(Error.INVALID_TOPIC_EXCEPTION)
        return METADATA.Response.MetadataResponseTopic(error_code=error, name=name or "")
    if name not in broker.image.topics and may_create:
        _create(broker, name)
    if name not in broker.image.topics:
        error = request.failed(Error.UNKNOWN_TOPIC_OR_PARTITION)
        return METADATA.Response.MetadataResponseTopic(error_code=error, name=name)
    return _topic(request, name)


def _create(broker: Broker, name: str) -> None:
    host = broker.host
    if name not in host.controller.image.topics and name not in host.controller.creating:
        host.controller.create_topic(name, (host.config["num.partitions"], host.default_replication), {})


def _topic(request: Request, name: str) -> object:
    broker = request.broker
    topic = broker.image.topics[name]
    described = METADATA.Response.MetadataResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            partition(request, one, METADATA.Response.MetadataResponsePartition)
            for one in broker.image.partitions[name]
        ],
    )
    if request.body.include_topic_authorized_operations:
        described.topic_authorized_operations = operation.TOPIC
    return described


def partition(request: Request, one: PartitionImage, group: type[Any]) -> Any:
    """One partition, in the form of Metadata or of DescribeTopicPartitions: their fields have the same names."""
    error = Error.NONE if one.leader != NO_LEADER else request.failed(Error.LEADER_NOT_AVAILABLE)
    return group(
        error_code=error,
        partition_index=one.index,
        leader_id=one.leader,
        leader_epoch=one.leader_epoch,
        replica_nodes=list(one.replicas),
        isr_nodes=list(one.isr),
        offline_replicas=[replica for replica in one.replicas if not request.broker.image.alive(replica)],
    )
