"""Kafka's own Java tools, unchanged, in the newest versions of every API."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dwell.broker import Cluster
from tests.broker.oracle.apache import libraries

pytestmark = [pytest.mark.maven, pytest.mark.timeout(600)]

TOOLS = "org.apache.kafka.tools"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as made:
        yield made


def run(cluster: Cluster, tool: str, *arguments: str, typed: str | None = None) -> str:
    """Run one tool to its end; what it printed."""
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{libraries()}/*"]
    command = [*java, f"{TOOLS}.{tool}", *arguments]
    if "bootstrap.servers" not in " ".join(arguments):
        command += ["--bootstrap-server", cluster.bootstrap_servers]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (command, done.stdout[-1_000:], done.stderr[-1_000:])
    return done.stdout


def test_topics_records_and_offsets(cluster: Cluster, tmp_path: Path) -> None:
    run(cluster, "TopicCommand", "--create", "--topic", "tea", "--partitions", "3", "--replication-factor", "3")
    assert run(cluster, "TopicCommand", "--list").split() == ["tea"]
    run(cluster, "TopicCommand", "--alter", "--topic", "tea", "--partitions", "4")
    assert cluster.partition("tea", 3).leader >= 0

    run(cluster, "ConsoleProducer", "--topic", "tea", typed="one\ntwo\nthree\n")
    assert sorted(record.value or b"" for record in cluster.records("tea")) == [b"one", b"three", b"two"]
    place = cluster.records("tea")[0]
    read = run(
        cluster,
        "consumer.ConsoleConsumer",
        *("--topic", "tea", "--partition", str(place.partition), "--offset", "earliest", "--max-messages", "1"),
    )
    assert read.encode().strip() == place.value

    run(
        cluster,
        "ProducerPerformance",
        *("--topic", "tea", "--num-records", "3000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all"),
    )
    shown = run(cluster, "GetOffsetShell", "--topic", "tea")
    ends = {int(line.split(":")[1]): int(line.split(":")[2]) for line in shown.split()}
    assert ends == {index: cluster.partition("tea", index).high_watermark for index in range(4)}
    assert sum(ends.values()) == 3_003

    wanted = tmp_path / "delete.json"
    cut = max(ends, key=lambda index: ends[index])
    offset = ends[cut] - 1
    wanted.write_text(json.dumps({"partitions": [{"topic": "tea", "partition": cut, "offset": offset}], "version": 1}))
    assert f"low_watermark: {offset}" in run(cluster, "DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert cluster.partition("tea", cut).log_start == offset

    cluster.partition("tea", 0).move_leader(2)
    chosen = ("--election-type", "preferred", "--topic", "tea", "--partition", "0")
    assert "Successfully completed leader election" in run(cluster, "LeaderElectionCommand", *chosen)
    assert cluster.partition("tea", 0).leader == 0

    run(cluster, "TopicCommand", "--delete", "--topic", "tea")
    assert run(cluster, "TopicCommand", "--list").split() == []
    used = {(request.api, request.version) for request in cluster.requests()}
    assert {("produce", 13), ("fetch", 18), ("metadata", 13), ("list_offsets", 11)} <= used
