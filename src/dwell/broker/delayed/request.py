"""The base of all operations that hold a client's request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dwell.purgatory import DelayedOperation

if TYPE_CHECKING:
    from dwell.broker.request import Request


class DelayedRequest(DelayedOperation):
    """Watched under its keys in the broker's purgatory of its kind. Completion builds the answer; the agenda sends it.

    A subclass says when it is done (`try_complete`), what is answered then or when time is up (`respond`), and in words
    what it still lacks (`unmet`).
    """

    __slots__ = ("keys", "request", "response", "started_ms")

    # The purgatory, and the word in `cluster.waiting()`.
    kind: ClassVar[str]

    def __init__(self, request: Request, timeout_ms: int, keys: tuple[Any, ...]) -> None:
        super().__init__(max(0, timeout_ms))
        self.request = request
        self.keys = keys
        self.response: object = None
        self.started_ms = 0

    def respond(self) -> object:
        """The answer, from what is true now."""
        raise NotImplementedError

    def unmet(self) -> str:
        """What is missing, in words."""
        raise NotImplementedError

    def key_names(self) -> tuple[str, ...]:
        return tuple(getattr(key, "name", str(key)) for key in self.keys)

    def topics(self) -> set[str]:
        """The topics it is about."""
        return {key if isinstance(key, str) else getattr(key, "topic", None) or key[0] for key in self.keys}

    # From the handler to the answer

    def park(self) -> None:
        """Wait for the keys or the time; what is true already completes at once, through the agenda."""
        request = self.request
        host = request.broker.host
        request.operation = self
        request.waited_in = self.kind
        request.parked_ms = host.now_ms()
        purgatory = request.broker.purgatory(self.kind)
        self.started_ms = purgatory.clock.now_ms()
        host.parked[self] = None
        purgatory.try_complete_else_watch(self, self.keys)
        host.poke()

    def on_complete(self) -> None:
        host = self.request.broker.host
        host.parked.pop(self, None)
        self.request.completed_by = host.checking
        self.response = self.respond()
        host.agenda.put(self.send)

    def on_expiration(self) -> None:
        self.request.is_expired = True
        self.request.completed_by = None
        self.request.broker.host.expired(self)

    def send(self) -> None:
        response, self.response = self.response, None
        self.request.answer(response)

    def abandon(self) -> None:
        """Take the operation out without an answer."""
        broker = self.request.broker
        broker.host.parked.pop(self, None)
        broker.purgatory(self.kind).cancel(self)
