"""Jars of Spark's Kafka connector, fetched by Maven once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "out" / "spark-kafka"
# The connector of 4.2.0 is the newest on Maven Central; its token provider is there up to 4.0.0 only.
ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.0",
)


def spark_kafka_jars() -> list[Path]:
    """The four jars; skips the test, in words, where they cannot be had."""
    wanted = [FOLDER / "{1}-{2}.jar".format(*artifact.split(":")) for artifact in ARTIFACTS]
    if all(jar.exists() for jar in wanted):
        return wanted
    if shutil.which("mvn") is None:
        pytest.skip("Spark's Kafka connector is fetched by Maven: no mvn on the PATH")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for artifact in ARTIFACTS:
        # One by one and without what they depend on: Spark's own POMs name a repository that need not be there.
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={FOLDER}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip(f"Maven could not fetch {artifact}: {done.stdout[-300:]}")
    return wanted
