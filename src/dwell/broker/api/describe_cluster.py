"""DescribeCluster: its brokers and its controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.broker.api import operation
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.cluster import DESCRIBE_CLUSTER

if TYPE_CHECKING:
    from dwell.broker.request import Request

BROKERS, CONTROLLERS = 1, 2


def handle(request: Request) -> object:
    body = request.body
    broker = request.broker
    if body.endpoint_type != BROKERS:
        return DESCRIBE_CLUSTER.Response(
            error_code=request.failed(
                Error.MISMATCHED_ENDPOINT_TYPE if body.endpoint_type == CONTROLLERS else Error.UNSUPPORTED_ENDPOINT_TYPE
            ),
            error_message="this is a broker: only brokers can be described here",
        )
    brokers = broker.image.brokers.values() if body.include_fenced_brokers else broker.image.alive_brokers()
    response = DESCRIBE_CLUSTER.Response(
        cluster_id=broker.host.cluster_id,
        controller_id=broker.host.controller.id,
        brokers=[
            DESCRIBE_CLUSTER.Response.DescribeClusterBroker(
                broker_id=one.id, host=one.host, port=one.port, rack=one.rack, is_fenced=one.is_fenced
            )
            for one in brokers
        ],
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operation.CLUSTER
    return response
