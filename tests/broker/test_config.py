"""Kafka's configuration names."""

from __future__ import annotations

import pytest

from dwell.broker.config import BROKER, TOPIC, Config, TopicConfig, parse
from dwell.errors import InvalidArgument


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidArgument, match=r"'replica.lag.time.ms'.*'replica.lag.time.max.ms'"):
        Config({"replica.lag.time.ms": 5})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.partitions", 0),
        ("num.partitions", "many"),
        ("auto.create.topics.enable", "perhaps"),
        ("compression.type", "zstd"),
        ("log.message.timestamp.type", "Yesterday"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=name.replace(".", r"\.")):
        parse(BROKER, name, value)


def test_a_topic_falls_back_to_the_cluster_and_the_cluster_to_the_default() -> None:
    cluster = Config({"min.insync.replicas": 2, "auto.create.topics.enable": False})
    assert TopicConfig({}, cluster).min_insync == 2
    assert TopicConfig({"min.insync.replicas": "3"}, cluster).min_insync == 3
    assert TopicConfig({}, Config({})).min_insync == 1
    assert cluster["auto.create.topics.enable"] is False
    assert cluster["num.partitions"] == 1


def test_every_row_has_a_name_and_a_default_that_it_would_take() -> None:
    for table in (BROKER, TOPIC):
        for name, setting in table.items():
            if name != "default.replication.factor":
                parse(table, name, setting.default)
