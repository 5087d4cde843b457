"""A Kafka-compatible broker in this process, whose requests really wait in dwell's purgatories.

    with Cluster(brokers=3, topics={"orders": 3}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})

For tests and for learning, not for production data. The parts, from the top:

    cluster, handle, waiting, timeline    what a test uses
    server                                connections and listeners
    api                                   one handler per API, and the table of what is served
    delayed                               what a request waits for, one operation per file
    replica, controller                   leaders and followers; topics, leaders, in-sync sets
    log, record, wire                     batches by offset and time; their format; Kafka's messages
    host, agenda                          the core without sockets; what is still to do
"""

from dwell.broker.cluster import Cluster
from dwell.broker.handle import BrokerHandle, ControllerHandle, PartitionHandle
from dwell.broker.request import RequestLine
from dwell.broker.statistic import ClusterStatistics
from dwell.broker.timeline import Step, Timeline
from dwell.broker.topic import StoredRecord
from dwell.broker.waiting import Waiting

__all__ = [
    "BrokerHandle",
    "Cluster",
    "ClusterStatistics",
    "ControllerHandle",
    "PartitionHandle",
    "RequestLine",
    "Step",
    "StoredRecord",
    "Timeline",
    "Waiting",
]
