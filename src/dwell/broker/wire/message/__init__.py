"""Every API we have the messages of, by key. What a broker serves is a choice among them."""

from __future__ import annotations

from collections.abc import Mapping

from dwell.broker.wire.api import Api
from dwell.broker.wire.message import (
    cluster,
    config,
    consumer_group,
    fetch,
    group,
    offset,
    produce,
    replica,
    security,
    topic,
    transaction,
)

_FAMILIES = (
    cluster,
    produce,
    fetch,
    topic,
    replica,
    group,
    consumer_group,
    offset,
    config,
    security,
    transaction,
)

APIS: Mapping[int, Api] = {
    api.key: api
    for api in sorted(
        (value for family in _FAMILIES for value in vars(family).values() if isinstance(value, Api)),
        key=lambda api: api.key,
    )
}
