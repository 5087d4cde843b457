"""An API of Kafka: its key, its name, the versions we know, its request and its response."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from dwell.broker.wire.codec import Buffer, Schema
from dwell.broker.wire.notation import Versions


class Api:
    """A pair of messages. Classes and codecs are made when they are first asked for."""

    def __init__(
        self, key: int, name: str, versions: str, *, flexible: int | None = None, request: str, response: str
    ) -> None:
        self.key = key
        # Kafka's word in snake_case: "offset_for_leader_epoch".
        self.name = name
        self.versions = Versions.parse(versions)
        # The first version with compact lengths and tagged fields; None if no version has them.
        self.flexible = flexible
        word = "".join(part.capitalize() for part in name.split("_"))
        self.request = Schema(f"{word}Request", versions, flexible, request)
        self.response = Schema(f"{word}Response", versions, flexible, response)

    def __repr__(self) -> str:
        return f"<{self.name} {self.key}, versions {self.versions}>"

    @cached_property
    def Request(self) -> type[Any]:
        """The request's class; its groups are attributes of it: `FETCH.Request.FetchTopic`."""
        return self.request.type

    @cached_property
    def Response(self) -> type[Any]:
        """The response's class; its groups are attributes of it: `FETCH.Response.PartitionData`."""
        return self.response.type

    def decode_request(self, version: int, buffer: Buffer, position: int = 0) -> Any:
        return self.request.decode(version, buffer, position)

    def encode_request(self, version: int, request: object) -> bytes:
        return self.request.encode(version, request)

    def decode_response(self, version: int, buffer: Buffer, position: int = 0) -> Any:
        return self.response.decode(version, buffer, position)

    def encode_response(self, version: int, response: object) -> bytes:
        return self.response.encode(version, response)
