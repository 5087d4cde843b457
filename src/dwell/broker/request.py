"""A request from the moment it was read until it is answered, and what is remembered of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from dwell.broker.wire import Error

if TYPE_CHECKING:
    from dwell.broker.broker import Broker
    from dwell.broker.delayed.request import DelayedRequest
    from dwell.broker.server.connection import Connection
    from dwell.broker.wire import Api

# A handler returns the response, or one of these.
PARKED = None
# Produce with acks=0: the client expects no answer at all.
NO_ANSWER = object()


@final
class Request:
    """What a handler gets. Handlers are plain functions: they return a response, or park an operation and `PARKED`."""

    __slots__ = (
        "answered_ms",
        "api",
        "body",
        "broker",
        "client_id",
        "completed_by",
        "connection",
        "correlation_id",
        "errors",
        "is_expired",
        "number",
        "operation",
        "parked_ms",
        "partitions",
        "received_ms",
        "version",
        "waited_in",
    )

    def __init__(
        self,
        number: int,
        connection: Connection,
        broker: Broker,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str | None,
        body: Any,
        received_ms: int,
    ) -> None:
        self.number = number
        self.connection: Connection | None = connection
        self.broker = broker
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.received_ms = received_ms
        self.answered_ms: int | None = None
        # The operation that holds the request, while it is parked.
        self.operation: DelayedRequest | None = None
        self.parked_ms: int | None = None
        self.waited_in: str | None = None
        self.completed_by: str | None = None
        self.is_expired = False
        # Errors in the answer; empty if all went well.
        self.errors: tuple[Error, ...] = ()
        # Partitions that a produce appended to, with the offset after its last record: for `timeline`.
        self.partitions: tuple[tuple[Any, int], ...] = ()

    def failed(self, error: Error) -> Error:
        """Remember an error that is put into the answer."""
        if error and error not in self.errors:
            self.errors = (*self.errors, error)
        return error

    def answer(self, response: object) -> None:
        """Send the answer, unless the client is gone."""
        connection, self.connection = self.connection, None
        self.operation = None
        self.answered_ms = self.broker.now_ms()
        if connection is not None:
            connection.answer(self, response)
        self.body = None

    def abandon(self) -> None:
        """Nobody waits for the answer any more: the client is gone, or its broker is down."""
        self.connection = None
        self.body = None
        operation, self.operation = self.operation, None
        if operation is not None:
            operation.abandon()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLine:
    """One request of the past, or one that waits: what `cluster.requests()` returns. Times are the cluster's clock."""

    number: int
    api: str
    version: int
    broker: int
    client_id: str | None
    received_ms: int
    # None: not answered, because it waits, wanted no answer, or lost its client.
    answered_ms: int | None
    # The purgatory it waited in.
    waited_in: str | None
    is_expired: bool
    # The partition or topic whose change completed the wait.
    completed_by: str | None
    errors: tuple[str, ...]

    @classmethod
    def of(cls, request: Request) -> RequestLine:
        return cls(
            number=request.number,
            api=request.api.name,
            version=request.version,
            broker=request.broker.id,
            client_id=request.client_id,
            received_ms=request.received_ms,
            answered_ms=request.answered_ms,
            waited_in=request.waited_in,
            is_expired=request.is_expired,
            completed_by=request.completed_by,
            errors=tuple(error.name for error in request.errors),
        )

    def __str__(self) -> str:
        words = f"{self.api} v{self.version} of {self.client_id or 'nobody'}, broker {self.broker}"
        if self.answered_ms is None:
            words += ", not answered"
        else:
            words += f", answered after {self.answered_ms - self.received_ms:,} ms"
        if self.waited_in is not None:
            how = "expired" if self.is_expired else f"completed by {self.completed_by}" if self.completed_by else "left"
            words += f", waited in {self.waited_in}" + (f", {how}" if self.answered_ms is not None else "")
        return words + (f": {', '.join(self.errors)}" if self.errors else "")
