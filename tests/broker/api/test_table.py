"""The one table of what is served."""

from __future__ import annotations

import re
from pathlib import Path

from dwell.broker.api.table import BY_KEY, KINDS, SERVED

ROOT = Path(__file__).parents[3]


def test_keys_and_names_are_there_once() -> None:
    assert len(BY_KEY) == len(SERVED) == len({served.api.name for served in SERVED})


def test_every_api_of_step_one_is_served_in_kafkas_ranges() -> None:
    assert {served.api.name: str(served.api.versions) for served in SERVED} == {
        "produce": "3-13",
        "fetch": "4-18",
        "list_offsets": "1-11",
        "metadata": "0-13",
        "api_versions": "0-4",
        "create_topics": "2-7",
        "delete_topics": "1-6",
        "delete_records": "0-2",
        "init_producer_id": "0-5",
        "offset_for_leader_epoch": "2-4",
        "create_partitions": "0-3",
        "elect_leaders": "0-2",
        "describe_cluster": "0-2",
        "describe_topic_partitions": "0-0",
    }


def test_each_handler_has_a_file_of_its_own() -> None:
    assert all(served.handle.__module__ == f"dwell.broker.api.{served.api.name}" for served in SERVED)


def test_the_purgatories_are_those_that_requests_wait_in() -> None:
    assert set(KINDS) == {"produce", "fetch", "topic", "delete_records", "elect_leader", "replica_fetch"}


def test_the_documents_list_what_is_served() -> None:
    page = (ROOT / "docs" / "broker.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| ([\d-]+) \| (.*?) \|$", page, re.MULTILINE)
    assert rows == [
        (
            str(served.api.key),
            served.api.name,
            str(served.api.versions),
            f"`{served.waits_in}`" if served.waits_in else "",
        )
        for served in sorted(SERVED, key=lambda one: one.api.key)
    ]
