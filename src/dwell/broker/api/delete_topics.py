"""DeleteTopics: ask the controller, wait until this broker's metadata no longer shows the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.broker.delayed.topic import DelayedTopic, Wanted
from dwell.broker.request import PARKED
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.topic import DELETE_TOPICS

if TYPE_CHECKING:
    from dwell.broker.request import Request

NO_ID = bytes(16)
# From here on topics are named by name or id, one by one.
BY_NAME_OR_ID = 6


def handle(request: Request) -> object:
    body = request.body
    controller = request.broker.host.controller
    asked: list[tuple[str | None, bytes]]
    if request.version >= BY_NAME_OR_ID:
        asked = [(topic.name, topic.topic_id) for topic in body.topics]
    else:
        asked = [(name, NO_ID) for name in body.topic_names]
    answers: list[Any] = []
    wanted: list[Wanted] = []
    for name, topic_id in asked:
        answer = DELETE_TOPICS.Response.DeletableTopicResult(name=name, topic_id=topic_id)
        answers.append(answer)
        if (name is None) == (topic_id == NO_ID):
            answer.error_code = request.failed(Error.INVALID_REQUEST)
            answer.error_message = "a topic is named by its name or by its id"
            continue
        if name is None:
            name = controller.image.names.get(topic_id)
            answer.name = name
        topic = None if name is None else controller.image.topics.get(name)
        if topic is None:
            by_id = topic_id != NO_ID
            answer.error_code = request.failed(Error.UNKNOWN_TOPIC_ID if by_id else Error.UNKNOWN_TOPIC_OR_PARTITION)
            answer.error_message = "there is no topic with this id" if by_id else f"there is no topic {name!r}"
            continue
        answer.topic_id = topic.id
        if topic.name not in controller.deleting:
            controller.delete_topic(topic.name)
        wanted.append(Wanted(topic.name, 0, answer, topic.id))
    response = DELETE_TOPICS.Response(responses=answers)
    if not wanted:
        return response
    if body.timeout_ms <= 0:
        return DelayedTopic(request, 0, wanted, response).respond()
    DelayedTopic(request, body.timeout_ms, wanted, response).park()
    return PARKED
