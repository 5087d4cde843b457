"""Spark's Kafka connector, unchanged: batch and stream, source and sink, while leaders move."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dwell.broker import Cluster
from tests.broker.jars import spark_kafka_jars
from tests.broker.spark_job import ROWS

pytestmark = [pytest.mark.maven, pytest.mark.spark, pytest.mark.timeout(900)]

STREAMED = 6_000


def test_batches_and_streams_are_exact_while_leaders_move(tmp_path: Path) -> None:
    jars = ",".join(map(str, spark_kafka_jars()))
    topics = {name: {"partitions": 3, "replication": 3} for name in ("batch", "timed", "in-a", "in-b", "copied")}
    with Cluster(brokers=3, topics=topics) as cluster:
        for number in range(100):
            cluster.produce("timed", b"x", timestamp_ms=100 * number)
        for number in range(STREAMED):
            cluster.produce("in-a" if number % 2 else "in-b", b"x", key=b"%d" % number)
        stop = threading.Event()
        moves = 0

        def disturb() -> None:
            nonlocal moves
            while not stop.wait(0.2):
                topic = ("batch", "in-a", "copied")[moves % 3]
                cluster.partition(topic, moves % 3).move_leader((moves // 3) % 3)
                moves += 1

        trouble = threading.Thread(target=disturb)
        trouble.start()
        try:
            job = subprocess.run(
                [sys.executable, "-m", "tests.broker.spark_job", cluster.bootstrap_servers, jars, str(tmp_path)],
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                timeout=800,
            )
        finally:
            stop.set()
            trouble.join()
        assert job.returncode == 0, job.stderr[-3_000:]
        counts = json.loads(job.stdout.strip().splitlines()[-1])
        assert moves > 10
        assert counts.pop("micro-batches") >= STREAMED // 1_000
        assert counts == {
            "batch": ROWS,
            "keys": ROWS,
            "ranged": 100 + 200 + 330,
            "late": 50,
            "copied": STREAMED,
            "copied keys": STREAMED,
        }
        assert {request.api for request in cluster.requests()} <= {
            "api_versions",
            "describe_cluster",
            "describe_topic_partitions",
            "fetch",
            "init_producer_id",
            "list_offsets",
            "metadata",
            "produce",
        }
