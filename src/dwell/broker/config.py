"""Kafka's configuration names that mean something here: one table, for the cluster's `configs=` and for topics.

A name that is not in the table is refused, with the nearest one that is.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dwell.errors import InvalidArgument

FOREVER_MS = 2**63 - 1


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("not true or false")


def _factor(text: str) -> int:
    factor = int(text)
    if factor == 0 or factor < -1:
        raise ValueError("not -1 or a positive number")
    return factor


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"not {' or '.join(allowed)}")
        return text

    return parse


def _policies(text: str) -> str:
    for policy in text.split(","):
        if policy.strip() not in ("delete", "compact"):
            raise ValueError("not delete or compact")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row: Kafka's name for the broker and for a topic (None: there is none), how to read it, its default."""

    broker: str | None = None
    topic: str | None = None
    parse: Callable[[str], Any] = int
    default: Any
    # The smallest number that makes sense.
    least: int | None = None
    does: str


SETTINGS: tuple[Setting, ...] = (
    Setting(broker="auto.create.topics.enable", parse=_boolean, default=True, does="Metadata creates unknown topics"),
    Setting(broker="num.partitions", default=1, least=1, does="partitions of a topic that does not say"),
    Setting(
        broker="default.replication.factor",
        parse=_factor,
        default=-1,
        does="replicas of a topic that does not say; -1: min(3, brokers)",
    ),
    Setting(
        broker="min.insync.replicas",
        topic="min.insync.replicas",
        default=1,
        least=1,
        does="acks=all needs so many in-sync replicas",
    ),
    Setting(broker="message.max.bytes", topic="max.message.bytes", default=1_048_588, least=0, does="largest batch"),
    Setting(
        broker="log.message.timestamp.type",
        topic="message.timestamp.type",
        parse=_one_of("CreateTime", "LogAppendTime"),
        default="CreateTime",
        does="whose time a record carries",
    ),
    Setting(
        broker="unclean.leader.election.enable",
        topic="unclean.leader.election.enable",
        parse=_boolean,
        default=False,
        does="a replica that is not in sync may lead when no other is left",
    ),
    Setting(
        broker="compression.type",
        topic="compression.type",
        parse=_one_of("producer"),
        default="producer",
        does="batches are kept as the producer compressed them; nothing is compressed again",
    ),
    Setting(
        broker="log.cleanup.policy",
        topic="cleanup.policy",
        parse=_policies,
        default="delete",
        does="compact: records must have a key; nothing is cleaned yet",
    ),
    Setting(topic="retention.ms", default=604_800_000, least=-1, does="kept and shown; nothing is cleaned yet"),
    Setting(topic="retention.bytes", default=-1, least=-1, does="kept and shown; nothing is cleaned yet"),
    Setting(
        topic="segment.bytes", default=1_073_741_824, least=14, does="kept and shown; a log in memory has no segments"
    ),
    Setting(topic="segment.ms", default=604_800_000, least=1, does="kept and shown; a log in memory has no segments"),
    Setting(topic="delete.retention.ms", default=86_400_000, least=0, does="kept and shown; nothing is cleaned yet"),
    *(
        Setting(topic=name, parse=kind, default=default, does="kept and shown; nothing here depends on it")
        for name, kind, default in (
            ("compression.gzip.level", int, -1),
            ("compression.lz4.level", int, 9),
            ("compression.zstd.level", int, 3),
            ("file.delete.delay.ms", int, 60_000),
            ("flush.messages", int, FOREVER_MS),
            ("flush.ms", int, FOREVER_MS),
            ("follower.replication.throttled.replicas", str, ""),
            ("index.interval.bytes", int, 4096),
            ("leader.replication.throttled.replicas", str, ""),
            ("local.retention.bytes", int, -2),
            ("local.retention.ms", int, -2),
            ("max.compaction.lag.ms", int, FOREVER_MS),
            ("message.timestamp.after.max.ms", int, 3_600_000),
            ("message.timestamp.before.max.ms", int, FOREVER_MS),
            ("min.cleanable.dirty.ratio", float, 0.5),
            ("min.compaction.lag.ms", int, 0),
            ("preallocate", _boolean, False),
            ("remote.log.copy.disable", _boolean, False),
            ("remote.log.delete.on.disable", _boolean, False),
            ("remote.storage.enable", _boolean, False),
            ("segment.index.bytes", int, 10_485_760),
            ("segment.jitter.ms", int, 0),
        )
    ),
    Setting(
        broker="replica.lag.time.max.ms", default=30_000, least=1, does="a follower behind for longer leaves the ISR"
    ),
    Setting(
        broker="replica.fetch.wait.max.ms",
        default=500,
        least=1,
        does="how long a follower's fetch waits; for ever on a manual clock unless set",
    ),
    Setting(broker="fetch.max.bytes", default=57_671_680, least=1024, does="upper limit for a fetch's max_bytes"),
    Setting(
        broker="max.incremental.fetch.session.cache.slots", default=1_000, least=0, does="fetch sessions per broker"
    ),
    Setting(broker="connections.max.idle.ms", default=600_000, does="an idle connection is closed after this time"),
)

BROKER: Mapping[str, Setting] = {setting.broker: setting for setting in SETTINGS if setting.broker}
TOPIC: Mapping[str, Setting] = {setting.topic: setting for setting in SETTINGS if setting.topic}


def parse(table: Mapping[str, Setting], name: str, value: object) -> Any:
    """The value of one setting; `InvalidArgument` names the setting, the value and the nearest known name."""
    setting = table.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, table, n=1, cutoff=0)
        raise InvalidArgument(f"configuration {name!r} is not served; the nearest that is: {near[0]!r}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        parsed = setting.parse(text)
    except ValueError as error:
        raise InvalidArgument(f"configuration {name!r} cannot be {value!r}: {error}") from error
    if setting.least is not None and parsed < setting.least:
        raise InvalidArgument(f"configuration {name!r} must be at least {setting.least}, not {value!r}")
    return parsed


def check_names(given: Mapping[str, str | None]) -> None:
    """Raises `InvalidArgument` for a topic's setting that Kafka does not have or that has no value."""
    for name, value in given.items():
        if value is None:
            raise InvalidArgument(f"configuration {name!r} has no value")
        if name not in TOPIC:
            parse(TOPIC, name, value)


class Config:
    """The cluster's settings: what was given, defaults for the rest."""

    __slots__ = ("_given",)

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = {name: parse(BROKER, name, value) for name, value in given.items()}

    def __getitem__(self, name: str) -> Any:
        return self._given[name] if name in self._given else BROKER[name].default

    def __contains__(self, name: str) -> bool:
        """Whether the setting was given."""
        return name in self._given


class TopicConfig:
    """A topic's settings: its own, then the cluster's, then the default. What handlers read is parsed once."""

    __slots__ = ("given", "is_compacted", "log_append_time", "max_message_bytes", "may_delete", "min_insync", "unclean")

    def __init__(self, given: Mapping[str, str], cluster: Config) -> None:
        self.given = dict(given)
        values: dict[str, Any] = {}
        for name, setting in TOPIC.items():
            if name in given:
                values[name] = parse(TOPIC, name, given[name])
            else:
                values[name] = cluster[setting.broker] if setting.broker else setting.default
        self.min_insync: int = values["min.insync.replicas"]
        self.max_message_bytes: int = values["max.message.bytes"]
        self.log_append_time: bool = values["message.timestamp.type"] == "LogAppendTime"
        self.unclean: bool = values["unclean.leader.election.enable"]
        self.is_compacted: bool = "compact" in values["cleanup.policy"]
        # A topic that is only compacted keeps the last record of every key: nobody may delete from it.
        self.may_delete: bool = "delete" in values["cleanup.policy"]
