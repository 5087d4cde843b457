"""What happened to one request, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from dwell.broker.request import Request

# What a partition remembers, in words; `{replica}` and `{offset}` are filled in.
WORDS = {
    "fetched": "replica {replica} has fetched up to {offset:,}",
    "high watermark": "high watermark of {name} {offset:,}",
    "leader": "broker {replica} leads {name} in epoch {offset:,}",
    "log start": "{name} starts at {offset:,}",
    "truncated": "replica {replica} of {name} cut to {offset:,}",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`after_ms` counts from when the request was received."""

    after_ms: int
    words: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Steps in the order they happened. `str()` is one line, with arrows."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return " → ".join(step.words for step in self.steps)


def timeline(request: Request) -> Timeline:
    """From what the request and its partitions remember; a partition forgets after a thousand events."""
    steps: list[tuple[int, int, str]] = [(request.received_ms, 0, "received")]
    for partition, end in request.partitions:
        steps.append((request.received_ms, 1, f"appended to {partition.name} up to {end:,}"))
    if request.waited_in is not None and request.parked_ms is not None:
        steps.append((request.parked_ms, 2, f"parked in {request.waited_in}"))
        last_ms = request.answered_ms if request.answered_ms is not None else request.broker.now_ms()
        for partition, end in request.partitions:
            for at_ms, what, replica, offset in partition.history:
                # At the same millisecond as the append, only what reaches its end can belong to it.
                is_later = at_ms > request.received_ms or (offset >= end and what != "leader")
                if is_later and at_ms <= last_ms:
                    words = WORDS[what].format(name=partition.name, replica=replica, offset=offset)
                    steps.append((at_ms, 3, words))
    if request.answered_ms is not None:
        waited = request.answered_ms - request.received_ms
        if request.is_expired:
            steps.append((request.answered_ms, 4, f"expired after {waited:,} ms"))
        elif request.completed_by is not None:
            steps.append((request.answered_ms, 4, f"completed by {request.completed_by} after {waited:,} ms"))
        errors = "".join(f" with {error.name}" for error in request.errors)
        steps.append((request.answered_ms, 5, f"answered{errors}"))
    steps.sort(key=lambda step: step[:2])
    return Timeline(steps=tuple(Step(after_ms=at_ms - request.received_ms, words=words) for at_ms, _, words in steps))
