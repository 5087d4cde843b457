"""Every message in every version, byte for byte beside kio, whose classes are generated from Kafka's own files."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from dwell.broker.wire import APIS, Api, Schema
from tests.broker.wire.value import messages, to_kio

CASES = [(api, version) for api in APIS.values() for version in api.versions]
DIRECTIONS = [EntityType.request, EntityType.response]


def _peer(api: Api, version: int, direction: EntityType) -> tuple[Schema, type[Any]]:
    schema = api.request if direction is EntityType.request else api.response
    module = load_payload_module(api.key, version, direction)  # type: ignore[arg-type]
    return schema, getattr(module, schema.name)


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
@pytest.mark.parametrize(("api", "version"), CASES, ids=[f"{api.name}-{version}" for api, version in CASES])
def test_bytes_are_those_of_kio_and_both_read_them(api: Api, version: int, direction: EntityType) -> None:
    schema, peer = _peer(api, version, direction)
    write, read = entity_writer(peer), entity_reader(peer)

    @settings(max_examples=10, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(messages(schema, version, peer))
    def check(message: Any) -> None:
        theirs = to_kio(message, schema.group, version, peer)
        buffer = io.BytesIO()
        write(buffer, theirs)
        encoded = schema.encode(version, message)
        assert encoded == buffer.getvalue()
        assert read(encoded, 0) == (theirs, len(encoded))
        _check_equal(schema.decode(version, encoded), message)

    check()


def _check_equal(decoded: Any, message: Any) -> None:
    """A tagged group that holds nothing but defaults is not sent, so it is read as None."""
    for name in message.fields:
        ours, sent = getattr(decoded, name), getattr(message, name)
        if ours is None and sent is not None:
            assert sent == type(sent)(), name
        elif hasattr(sent, "fields"):
            _check_equal(ours, sent)
        elif isinstance(sent, list) and sent and hasattr(sent[0], "fields"):
            assert len(ours) == len(sent)
            for each, original in zip(ours, sent, strict=True):
                _check_equal(each, original)
        else:
            assert ours == sent, name


def test_every_version_of_every_message_is_checked() -> None:
    assert len(CASES) == 226
    assert {api.key for api in APIS.values()} == set(APIS)
