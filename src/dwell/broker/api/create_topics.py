"""CreateTopics: check, ask the controller, wait until this broker's metadata shows the topics with their leaders."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dwell.broker.api import topic_name
from dwell.broker.config import TOPIC, TopicConfig, check_names
from dwell.broker.delayed.topic import DelayedTopic, Wanted
from dwell.broker.request import PARKED
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.topic import CREATE_TOPICS
from dwell.errors import InvalidArgument

if TYPE_CHECKING:
    from dwell.broker.host import Host
    from dwell.broker.request import Request

DEFAULT = -1
# Kafka's limit for one request.
MAX_PARTITIONS = 10_000
# Where a setting of a topic comes from, in Kafka's numbers.
TOPIC_CONFIG, BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5

Assignment = list[tuple[int, ...]] | tuple[int, int]


class Refused(Exception):
    """A topic that cannot be created, or not grown."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error


def handle(request: Request) -> object:
    body = request.body
    host = request.broker.host
    named = Counter(topic.name for topic in body.topics)
    answers: dict[str, Any] = {}
    wanted: list[Wanted] = []
    for topic in body.topics:
        answer = CREATE_TOPICS.Response.CreatableTopicResult(name=topic.name, error_message=None)
        answers.setdefault(topic.name, answer)
        if named[topic.name] > 1:
            answers[topic.name].error_code = request.failed(Error.INVALID_REQUEST)
            answers[topic.name].error_message = f"the request names {topic.name!r} more than once"
            continue
        configs = {config.name: config.value for config in topic.configs}
        try:
            assignment = check(host, topic, configs)
        except Refused as refused:
            answer.error_code = request.failed(refused.error)
            answer.error_message = str(refused)
            continue
        count, replication = numbers(assignment)
        answer.num_partitions, answer.replication_factor = count, replication
        answer.configs = _describe(host, configs)
        if body.validate_only:
            answer.topic_id = host.new_id()  # Kafka draws one too; the topic will have another
        else:
            host.controller.create_topic(topic.name, assignment, configs)
            wanted.append(Wanted(topic.name, count, answer))
    response = CREATE_TOPICS.Response(topics=list(answers.values()))
    if not wanted:
        return response
    if body.timeout_ms <= 0:
        return DelayedTopic(request, 0, wanted, response).respond()
    DelayedTopic(request, body.timeout_ms, wanted, response).park()
    return PARKED


def numbers(assignment: Assignment) -> tuple[int, int]:
    """How many partitions with how many replicas."""
    first = assignment[0]
    if isinstance(first, int):
        count, replication = assignment
        assert isinstance(count, int)
        assert isinstance(replication, int)
        return count, replication
    return len(assignment), len(first)


def check(host: Host, topic: Any, configs: dict[str, str]) -> Assignment:
    """Where the partitions shall lie, or two numbers; raises `Refused`."""
    problem = topic_name.problem(topic.name)
    if problem is not None:
        raise Refused(Error.INVALID_TOPIC_EXCEPTION, problem)
    controller = host.controller
    if topic.name in controller.creating or (
        topic.name in controller.image.topics and topic.name not in controller.deleting
    ):
        raise Refused(Error.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} already exists")
    twin = topic_name.twin(topic.name, controller.image.topics)
    if twin is not None:
        raise Refused(Error.INVALID_TOPIC_EXCEPTION, f"{topic.name!r} and {twin!r} differ in '.' and '_' only")
    try:
        check_names(configs)
        TopicConfig(configs, host.config)
    except InvalidArgument as error:
        raise Refused(Error.INVALID_CONFIG, str(error)) from error
    if topic.assignments:
        if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
            raise Refused(Error.INVALID_REQUEST, "both an assignment and numbers are given")
        assignment = {one.partition_index: tuple(one.broker_ids) for one in topic.assignments}
        if len(assignment) != len(topic.assignments):
            raise Refused(Error.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned more than once")
        return check_assignment(host, assignment, 0)
    count = host.config["num.partitions"] if topic.num_partitions == DEFAULT else topic.num_partitions
    if count <= 0:
        raise Refused(Error.INVALID_PARTITIONS, f"the number of partitions must be positive, not {count}")
    if count > MAX_PARTITIONS:
        raise Refused(Error.POLICY_VIOLATION, f"{count:,} partitions in one request; at most {MAX_PARTITIONS:,}")
    replication = host.default_replication if topic.replication_factor == DEFAULT else topic.replication_factor
    if not 1 <= replication <= len(controller.image.brokers):
        raise Refused(
            Error.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication} with {len(controller.image.brokers)} brokers",
        )
    return count, replication


def check_assignment(host: Host, assignment: dict[int, tuple[int, ...]], first: int) -> list[tuple[int, ...]]:
    """Replicas by partition, for the partitions from `first` on; raises `Refused`."""
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise Refused(Error.INVALID_REPLICA_ASSIGNMENT, f"partitions must be numbered from {first} without gaps")
    sizes = {len(replicas) for replicas in assignment.values()}
    for index, replicas in assignment.items():
        unknown = [replica for replica in replicas if replica not in host.controller.image.brokers]
        if not replicas or len(set(replicas)) != len(replicas) or len(sizes) != 1:
            raise Refused(Error.INVALID_REPLICA_ASSIGNMENT, f"partition {index} cannot have the replicas {replicas}")
        if unknown:
            raise Refused(Error.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: there is no broker {unknown[0]}")
    return [assignment[index] for index in sorted(assignment)]


def _describe(host: Host, configs: dict[str, str]) -> list[Any]:
    described = []
    for name, setting in TOPIC.items():
        if name in configs:
            value, source = configs[name], TOPIC_CONFIG
        elif setting.broker is not None and setting.broker in host.config:
            value, source = str(host.config[setting.broker]), BROKER_CONFIG
        else:
            value, source = str(setting.default), DEFAULT_CONFIG
        value = value.lower() if value in ("True", "False") else value
        described.append(CREATE_TOPICS.Response.CreatableTopicConfigs(name=name, value=value, config_source=source))
    return described
