"""Every served API, in every version, with good and bad input: the same answers as Apache Kafka's, field by field.

What differs on purpose stands in `DIFFERENCES`, with its reason, and in docs/kafka.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from dwell.broker.api.table import SERVED
from dwell.broker.wire import Api
from dwell.broker.wire.message.cluster import API_VERSIONS
from tests.broker.oracle.answer import differences
from tests.broker.oracle.apache import ApacheKafka
from tests.broker.oracle.client import Connection, Side
from tests.broker.oracle.ours import Ours
from tests.broker.oracle.script import CASES, Run, Script

pytestmark = [pytest.mark.maven, pytest.mark.timeout(600)]

# Script and label (None: all of them), then the field and why it differs.
DIFFERENCES: dict[tuple[str, str | None], tuple[str, str]] = {
    ("metadata", "automatic creation"): ("topics", "the first answer already has the topic; Kafka's has not"),
    ("produce", "compression 5"): ("partition_responses", "Kafka fails inside and answers UNKNOWN_SERVER_ERROR"),
    ("create_topics", None): ("config_source", "Kafka counts min.insync.replicas as set for the whole cluster"),
}


@pytest.mark.parametrize(
    ("name", "version", "script", "api"), CASES, ids=[f"{name}-{version}" for name, version, _, _ in CASES]
)
def test_answers_are_kafkas(
    one_node: tuple[Ours, ApacheKafka], name: str, version: int, script: Script, api: Api
) -> None:
    answers = []
    for side in one_node:
        run = Run(side, version, api)
        script(run)
        run.connection.close()
        answers.append(run.answers)
    ours, kafkas = answers
    assert list(ours) == list(kafkas)
    different = {
        label: found
        for label in ours
        if (found := [each for each in differences(ours[label], kafkas[label]) if not _meant(name, label, each)])
    }
    assert not different


def _meant(name: str, label: str, difference: tuple[str, Any, Any]) -> bool:
    for key in ((name, label), (name, None)):
        if key in DIFFERENCES and f".{DIFFERENCES[key][0]}" in difference[0]:
            return True
    return False


def test_every_served_api_has_a_script() -> None:
    assert {served.api for served in SERVED} == {api for _, _, _, api in CASES} | {API_VERSIONS}


@pytest.mark.parametrize("version", list(API_VERSIONS.versions))
def test_versions_are_kafkas(one_node: tuple[Ours, ApacheKafka], version: int) -> None:
    request = API_VERSIONS.Request(client_software_name="oracle", client_software_version="1.0")
    ours, kafkas = ({each.api_key: each for each in _versions(side, version, request).api_keys} for side in one_node)
    assert {served.api.key for served in SERVED} == set(ours)
    for key, each in ours.items():
        assert (each.min_version, each.max_version) == (kafkas[key].min_version, kafkas[key].max_version), key


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("name", "software"), [("", "1.0"), ("-bad-", "1.0"), ("oracle", "")])
def test_a_client_without_a_name_is_refused(
    one_node: tuple[Ours, ApacheKafka], version: int, name: str, software: str
) -> None:
    request = API_VERSIONS.Request(client_software_name=name, client_software_version=software)
    ours, kafkas = (_versions(side, version, request) for side in one_node)
    assert (ours.error_code, ours.api_keys) == (kafkas.error_code, kafkas.api_keys)


def test_an_unknown_version_is_answered_in_the_oldest(one_node: tuple[Ours, ApacheKafka]) -> None:
    answers = []
    for side in one_node:
        with Connection(side) as connection:
            connection.send_bytes(b"\0\0\0\x10\0\x12\0\x63\0\0\0\x01\0\x01x\0\x02x\x02x"[:20] + b"\0")
            frame = connection.receive_frame()
            assert frame is not None
            answers.append(API_VERSIONS.decode_response(0, frame, 4))
    ours, kafkas = answers
    assert ours.error_code == kafkas.error_code == 35
    own = {each.api_key: (each.min_version, each.max_version) for each in kafkas.api_keys}
    assert {each.api_key: (each.min_version, each.max_version) for each in ours.api_keys}.items() <= own.items()


def _versions(side: Side, version: int, request: object) -> Any:
    with Connection(side) as connection:
        return connection.ask(API_VERSIONS, version, request)


MALFORMED = {
    "an unknown API": b"\0\0\0\x0b\x03\xe7\0\0\0\0\0\x01\0\x01x",
    "a version too old": b"\0\0\0\x0b\0\x00\0\x01\0\0\0\x01\0\x01x",
    "a version too new": b"\0\0\0\x0b\0\x03\0\x63\0\0\0\x01\0\x01x",
    "length 0": b"\0\0\0\0",
    "length -1": b"\xff\xff\xff\xff",
    "length 2**31 - 1": b"\x7f\xff\xff\xff",
    "a header cut short": b"\0\0\0\x04\0\x03\0\x01",
    "a body cut short": b"\0\0\0\x0d\0\x03\0\x01\0\0\0\x01\0\x01x\0\0",
    "an array longer than the frame": b"\0\0\0\x0f\0\x03\0\x01\0\0\0\x01\0\x01x\x7f\xff\xff\xff",
    "a negative array that may not be null": b"\0\0\0\x17\0\x13\0\x02\0\0\0\x01\0\x01x\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
}


@pytest.mark.parametrize("frame", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_frames_close_the_connection(one_node: tuple[Ours, ApacheKafka], frame: bytes) -> None:
    closed = []
    for side in one_node:
        with Connection(side) as connection:
            connection.send_bytes(frame)
            closed.append(connection.receive_frame() is None)
    assert closed == [True, True]


TOLERATED = {
    "bytes after a request": b"\0\0\0\x12\0\x03\0\x01\0\0\0\x01\0\x01x\0\0\0\0abc",
    "a negative array that may be null": b"\0\0\0\x0f\0\x03\0\x01\0\0\0\x01\0\x01x\xff\xff\xff\xfe",
}


@pytest.mark.parametrize("frame", TOLERATED.values(), ids=TOLERATED.keys())
def test_what_kafka_tolerates_is_answered(one_node: tuple[Ours, ApacheKafka], frame: bytes) -> None:
    for side in one_node:
        with Connection(side) as connection:
            connection.send_bytes(frame)
            assert connection.receive_frame() is not None
