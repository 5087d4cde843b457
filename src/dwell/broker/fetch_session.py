"""Fetch sessions: a client names its partitions once and then only what changes.

A request with epoch 0 opens a session and gets its id; each further request names the session, the next epoch, and the
partitions to add, to change or to forget. Answers to those leave out partitions of which there is nothing new. Epoch -1
ends the session, or is a request without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, final

from dwell.broker.delayed.fetch import FetchPartition
from dwell.broker.wire.error import Error

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
# Kafka's min.incremental.fetch.session.eviction.ms: a full cache gives up sessions that were idle for so long.
EVICTION_MS = 120_000
MAX_EPOCH = 2**31 - 1

# A topic's name up to version 12, its id from 13 on; and the partition's number.
Key = tuple[str | bytes, int]


@final
class FetchSession:
    """The partitions of one client, in the order in which they are served."""

    __slots__ = ("epoch", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        # The epoch that the next request must have.
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.used_ms = now_ms
        self.partitions: dict[Key, FetchPartition] = {}

    def update(self, topics: Iterable[Any], forgotten: Iterable[Any]) -> None:
        """Apply a request: first what is forgotten, then what is added or changed."""
        for topic in forgotten:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                self.partitions.pop((name, index), None)
        for key, partition in wanted(topics, self.uses_topic_ids, self.partitions):
            self.partitions[key] = partition

    def served_last(self, key: Key) -> None:
        """Let the others come first next time: one busy partition must not starve them."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.partitions[key] = partition


def wanted(
    topics: Iterable[Any], uses_topic_ids: bool, known: dict[Key, FetchPartition] | None = None
) -> list[tuple[Key, FetchPartition]]:
    """The partitions a request names; known ones are changed in place."""
    found = []
    for topic in topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for asked in topic.partitions:
            key = (name, asked.partition)
            partition = None if known is None else known.get(key)
            if partition is None:
                partition = FetchPartition(
                    None if uses_topic_ids else name, name if uses_topic_ids else None, asked.partition
                )
            partition.ask(asked)
            found.append((key, partition))
    return found


@final
class FetchSessions:
    """All sessions of one broker, least recently used first."""

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def open(self, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session; None if the cache is full of sessions in use."""
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms <= EVICTION_MS:
                return None
            del self._sessions[oldest.id]
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids, now_ms)
        return session

    def go_on(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession | Error:
        """The session that a request continues."""
        session = self._sessions.get(session_id)
        if session is None:
            return Error.FETCH_SESSION_ID_NOT_FOUND
        if epoch != session.epoch:
            return Error.INVALID_FETCH_SESSION_EPOCH
        if uses_topic_ids != session.uses_topic_ids:
            return Error.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.used_ms = now_ms
        # Most recently used last.
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def clear(self) -> None:
        self._sessions.clear()

    def __len__(self) -> int:
        return len(self._sessions)
