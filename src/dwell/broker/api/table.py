"""What this broker serves: the one table that connections, ApiVersions, the documents and the tests read.

Keys, names and versions come from `wire/message`; an API that is known there and not listed here is not advertised and
not answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dwell.broker.api import (
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from dwell.broker.wire import Api
from dwell.broker.wire.message.cluster import API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, METADATA
from dwell.broker.wire.message.fetch import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from dwell.broker.wire.message.produce import INIT_PRODUCER_ID, PRODUCE
from dwell.broker.wire.message.replica import ELECT_LEADERS
from dwell.broker.wire.message.topic import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_RECORDS, DELETE_TOPICS

if TYPE_CHECKING:
    from dwell.broker.request import Request


@dataclass(frozen=True, slots=True)
class Served:
    """One API: its messages, its handler, and the purgatory its requests may wait in (None: it never waits)."""

    api: Api
    handle: Callable[[Request], object]
    waits_in: str | None = None


SERVED: tuple[Served, ...] = (
    Served(PRODUCE, produce.handle, "produce"),
    Served(FETCH, fetch.handle, "fetch"),
    Served(LIST_OFFSETS, list_offsets.handle),
    Served(METADATA, metadata.handle),
    Served(API_VERSIONS, api_versions.handle),
    Served(CREATE_TOPICS, create_topics.handle, "topic"),
    Served(DELETE_TOPICS, delete_topics.handle, "topic"),
    Served(DELETE_RECORDS, delete_records.handle, "delete_records"),
    Served(INIT_PRODUCER_ID, init_producer_id.handle),
    Served(OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch.handle),
    Served(CREATE_PARTITIONS, create_partitions.handle, "topic"),
    Served(ELECT_LEADERS, elect_leaders.handle, "elect_leader"),
    Served(DESCRIBE_CLUSTER, describe_cluster.handle),
    Served(DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions.handle),
)

BY_KEY: Mapping[int, Served] = {served.api.key: served for served in SERVED}

# The purgatories of a broker: those of clients' requests, and the one where followers wait.
KINDS = (*dict.fromkeys(served.waits_in for served in SERVED if served.waits_in), "replica_fetch")
