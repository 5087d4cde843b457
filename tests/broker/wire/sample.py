"""One filled-in message of each kind, without Hypothesis: for fuzzers that need many frames quickly."""

from __future__ import annotations

from typing import Any

from dwell.broker.wire.codec import Schema
from dwell.broker.wire.notation import Field, Group


def sample(schema: Schema, version: int) -> Any:
    """A message whose arrays have two elements and whose tagged fields are all there."""
    return _group(schema, schema.group, version)


def _group(schema: Schema, group: Group, version: int) -> Any:
    present = [item for item in group.fields if version in item.versions]
    return schema.types[group.name](**{item.name: _value(schema, item, version) for item in present})


def _value(schema: Schema, item: Field, version: int) -> Any:
    if item.array:
        return [_single(schema, item, version) for _ in range(2)]
    return _single(schema, item, version)


def _single(schema: Schema, item: Field, version: int) -> Any:
    if item.group is not None:
        return _group(schema, item.group, version)
    values: dict[str, Any] = {
        "string": "orders",
        "bytes": b"some bytes",
        "records": b"some records",
        "uuid": bytes(range(16)),
        "bool": True,
        "float64": 1.5,
    }
    return values.get(item.base, 7)
