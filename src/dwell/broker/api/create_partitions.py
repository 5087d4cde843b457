"""CreatePartitions: more partitions for topics that exist."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dwell.broker.api.create_topics import MAX_PARTITIONS, Refused, check_assignment
from dwell.broker.delayed.topic import DelayedTopic, Wanted
from dwell.broker.request import PARKED
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.topic import CREATE_PARTITIONS

if TYPE_CHECKING:
    from dwell.broker.host import Host
    from dwell.broker.request import Request


def handle(request: Request) -> object:
    body = request.body
    host = request.broker.host
    named = Counter(topic.name for topic in body.topics)
    answers: dict[str, Any] = {}
    wanted: list[Wanted] = []
    for topic in body.topics:
        answer = answers.setdefault(topic.name, CREATE_PARTITIONS.Response.CreatePartitionsTopicResult(name=topic.name))
        if named[topic.name] > 1:
            answer.error_code = request.failed(Error.INVALID_REQUEST)
            answer.error_message = f"the request names {topic.name!r} more than once"
            continue
        try:
            assignment = _check(host, topic)
        except Refused as refused:
            answer.error_code = request.failed(refused.error)
            answer.error_message = str(refused)
            continue
        if not body.validate_only:
            host.controller.add_partitions(topic.name, topic.count, assignment)
            wanted.append(Wanted(topic.name, topic.count, answer))
    response = CREATE_PARTITIONS.Response(results=list(answers.values()))
    if not wanted:
        return response
    if body.timeout_ms <= 0:
        return DelayedTopic(request, 0, wanted, response).respond()
    DelayedTopic(request, body.timeout_ms, wanted, response).park()
    return PARKED


def _check(host: Host, topic: Any) -> list[tuple[int, ...]] | None:
    partitions = host.controller.image.partitions.get(topic.name)
    if partitions is None or topic.name in host.controller.deleting:
        raise Refused(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name!r}")
    if topic.count <= len(partitions):
        raise Refused(
            Error.INVALID_PARTITIONS, f"{topic.name!r} has {len(partitions)} partitions: {topic.count} are not more"
        )
    if topic.count - len(partitions) > MAX_PARTITIONS:
        raise Refused(Error.POLICY_VIOLATION, f"{topic.count:,} partitions; at most {MAX_PARTITIONS:,} in one request")
    if topic.assignments is None:
        return None
    first = len(partitions)
    if len(topic.assignments) != topic.count - first:
        raise Refused(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"{topic.count - first} partitions are new, {len(topic.assignments)} are assigned",
        )
    return check_assignment(
        host, {first + place: tuple(one.broker_ids) for place, one in enumerate(topic.assignments)}, first
    )
