"""Apache Kafka from its jars, as one to three processes of this machine.

Maven fetches the jars once, into `out/oracle` (or they lie where `DWELL_KAFKA_LIBS` says). Every node is a broker, node
0 is the controller too. A node is frozen and thawed by signals, so that it is as silent as a stopped machine; node 0
is not to be frozen, or the others could decide nothing.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from dwell.broker.wire.message.replica import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS
from tests.broker.oracle.client import Connection, describe, wait_until

VERSION = "4.3.1"
ROOT = Path(__file__).parents[3] / "out" / "oracle"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>dwell</groupId><artifactId>oracle</artifactId><version>1</version><dependencies>{dependencies}</dependencies>
</project>"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_JARS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"),
    ("org.apache.logging.log4j", "log4j-core", "2.25.1"),
)
_LOGGING = """<Configuration status="error"><Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
<Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n%ex"/></Console></Appenders></Configuration>"""
_START_SECONDS = 180


def libraries() -> Path:
    """The folder of Kafka's jars; skips the test, in words, where they cannot be had."""
    named = os.environ.get("DWELL_KAFKA_LIBS")
    if named:
        return Path(named)
    if shutil.which("java") is None:
        pytest.skip("Apache Kafka needs a JDK: no java on the PATH")
    folder = ROOT / f"kafka-{VERSION}"
    if (folder / "complete").exists():
        return folder / "libs"
    if shutil.which("mvn") is None:
        pytest.skip("Apache Kafka's jars are fetched by Maven: no mvn on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*jar) for jar in _JARS)))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        pytest.skip(f"Maven could not fetch Apache Kafka's jars: {done.stdout[-300:]}")
    (folder / "complete").touch()
    return folder / "libs"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class ApacheKafka:
    """A cluster of Apache Kafka. `start` returns when every node listens."""

    name = "Apache Kafka"

    def __init__(self, directory: Path, brokers: int, properties: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.brokers = brokers
        self.properties = properties or {}
        *self.ports, self._controller_port = free_ports(brokers + 1)
        self._processes: list[subprocess.Popen[bytes]] = []

    def address(self, node: int) -> tuple[str, int]:
        return "127.0.0.1", self.ports[node]

    def start(self) -> None:
        libs = libraries()
        self.directory.mkdir(parents=True, exist_ok=True)
        logging = self.directory / "log4j2.xml"
        logging.write_text(_LOGGING)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        java = [
            "java",
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={logging}",
        ]
        java += ["-cp", f"{libs}/*"]
        for node in range(self.brokers):
            file = self.directory / f"server-{node}.properties"
            file.write_text("\n".join(f"{key}={value}" for key, value in self._properties(node).items()))
            formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file)]
            subprocess.run(formatting, check=True, capture_output=True, timeout=_START_SECONDS)
        for node in range(self.brokers):
            with (self.directory / f"node-{node}.log").open("wb") as log:
                command = [*java, "kafka.Kafka", str(self.directory / f"server-{node}.properties")]
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        deadline = time.monotonic() + _START_SECONDS
        for node in range(self.brokers):
            while not self._listens(node):
                if time.monotonic() > deadline or self._processes[node].poll() is not None:
                    words = (self.directory / f"node-{node}.log").read_text()[-2000:]
                    self.stop()
                    raise RuntimeError(f"node {node} of Apache Kafka does not listen: {words}")
                time.sleep(0.1)

    def _listens(self, node: int) -> bool:
        try:
            socket.create_connection(self.address(node), timeout=1).close()
        except OSError:
            return False
        return True

    def _properties(self, node: int) -> dict[str, str]:
        listeners = f"PLAINTEXT://127.0.0.1:{self.ports[node]}"
        if node == 0:
            listeners += f",CONTROLLER://127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker" if node else "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": f"0@127.0.0.1:{self._controller_port}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / f"data-{node}"),
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.properties,
        }

    def freeze(self, node: int) -> None:
        self._processes[node].send_signal(signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        self._processes[node].send_signal(signal.SIGCONT)

    def move_leader(self, topic: str, to: int) -> None:
        """The new leader becomes the preferred one, and the preferred leader is elected."""
        with Connection(self) as connection:
            replicas = list(describe(connection, topic).partitions[0].replica_nodes)
            replicas.sort(key=lambda node: node != to)
            r = ALTER_PARTITION_REASSIGNMENTS.Request
            partition = r.ReassignablePartition(partition_index=0, replicas=replicas)
            request = r(topics=[r.ReassignableTopic(name=topic, partitions=[partition])], timeout_ms=30_000)
            assert connection.ask(ALTER_PARTITION_REASSIGNMENTS, 0, request).error_code == 0

            def is_preferred() -> bool:
                return bool(describe(connection, topic).partitions[0].replica_nodes == replicas)

            wait_until(f"the replicas of {topic} are not in their new order", is_preferred)
            e = ELECT_LEADERS.Request
            wanted = e.TopicPartitions(topic=topic, partitions=[0])
            connection.ask(ELECT_LEADERS, 2, e(topic_partitions=[wanted], timeout_ms=30_000))

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)
