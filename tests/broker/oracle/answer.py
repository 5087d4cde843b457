"""An answer as plain data that two brokers can be compared by: without ports, ids and times."""

from __future__ import annotations

from typing import Any

from dwell.broker.record.batch import read_batches
from dwell.broker.record.record import read_records
from dwell.broker.wire import Error, Schema
from dwell.broker.wire.notation import Group

# What depends on the machine or the moment. An unset value (-1, 0, null) is kept: whether it is set must agree.
_HIDDEN = frozenset(["host", "port", "cluster_id", "session_id", "log_append_time_ms", "rack"])
_UNSET: tuple[object, ...] = (-1, 0, None, "")
# Texts for people. Both brokers may word an error or leave it unworded; where there is no error, both must be silent.
_WORDS = frozenset(["error_message", "batch_index_error_message"])
# Kafka answers topics in the order of a hash table.
_ORDER = ("name", "topic", "topic_id")


def plain(schema: Schema, version: int, message: Any, topic_ids: dict[bytes, str] | None = None) -> Any:
    """The fields of a version as dictionaries and lists; error codes by name, records as what they hold."""
    return _group(schema.group, version, message, topic_ids or {})


def _sorted(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(values, key=lambda value: [str(value.get(key)) for key in _ORDER])


def _group(group: Group, version: int, message: Any, topic_ids: dict[bytes, str]) -> Any:
    out: dict[str, Any] = {}
    for item in group.fields:
        if version not in item.versions:
            continue
        value = getattr(message, item.name)
        if item.group is not None and item.array:
            inner = item.group
            if value is not None:
                value = _sorted([_group(inner, version, each, topic_ids) for each in value])
        elif item.group is not None:
            value = None if value is None else _group(item.group, version, value, topic_ids)
        elif item.base == "records":
            value = records(value)
        elif item.base == "uuid" and not item.array:
            value = "none" if value == bytes(16) else f"id of {topic_ids.get(value, '?')}"
        elif item.name in _HIDDEN:
            value = value if value in _UNSET else "set"
        elif item.name == "producer_id":
            value = "set" if value >= 0 else value
        elif item.name.endswith("error_code"):
            value = Error(value).name
        elif item.name in _WORDS and out.get("error_code") != "NONE":
            continue
        out[item.name] = value
    return out


def records(value: Any) -> Any:
    """Batches as offsets, leader epoch, producer and values."""
    if value is None:
        return None
    return [
        (
            batch.base_offset,
            batch.last_offset,
            batch.leader_epoch,
            batch.attributes,
            batch.base_sequence,
            [record.value for record in read_records(batch)],
        )
        for batch in read_batches(value)
    ]


def differences(ours: Any, kafkas: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Where two answers differ: the path, our value, Kafka's value."""
    if isinstance(ours, dict) and isinstance(kafkas, dict):
        names = {**ours, **kafkas}
        return [
            found
            for name in names
            for found in differences(ours.get(name, "absent"), kafkas.get(name, "absent"), f"{path}.{name}")
        ]
    if isinstance(ours, list | tuple) and isinstance(kafkas, list | tuple) and len(ours) == len(kafkas):
        return [
            found
            for index, (one, other) in enumerate(zip(ours, kafkas, strict=True))
            for found in differences(one, other, f"{path}[{index}]")
        ]
    return [] if ours == kafkas else [(path, ours, kafkas)]
