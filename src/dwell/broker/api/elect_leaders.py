"""ElectLeaders: the preferred leader, or with an unclean election any living replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dwell.broker.controller.image import NO_LEADER
from dwell.broker.delayed.elect_leader import DelayedElectLeader, Wanted
from dwell.broker.request import PARKED
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.replica import ELECT_LEADERS

if TYPE_CHECKING:
    from dwell.broker.request import Request

PREFERRED, UNCLEAN = 0, 1


def handle(request: Request) -> object:
    body = request.body
    image = request.broker.host.controller.image
    response = ELECT_LEADERS.Response
    if body.election_type not in (PREFERRED, UNCLEAN):
        return response(error_code=request.failed(Error.INVALID_REQUEST))
    all_of_them = body.topic_partitions is None
    asked = (
        [(name, [one.index for one in partitions]) for name, partitions in image.partitions.items()]
        if all_of_them
        else [(one.topic, one.partitions) for one in body.topic_partitions]
    )
    topics = []
    wanted: list[Wanted] = []
    for topic, indexes in asked:
        answers = []
        for index in indexes:
            answer = response.PartitionResult(partition_id=index)
            error = _elect(request, topic, index, answer, wanted)
            # Asked for all, an election that was not needed is not worth a line.
            if not (all_of_them and error is Error.ELECTION_NOT_NEEDED):
                answer.error_code = error
                answers.append(answer)
        topics.append(response.ReplicaElectionResult(topic=topic, partition_result=answers))
    made = response(replica_election_results=topics)
    if not wanted:
        return made
    if body.timeout_ms <= 0:
        return DelayedElectLeader(request, 0, wanted, made).respond()
    DelayedElectLeader(request, body.timeout_ms, wanted, made).park()
    return PARKED


def _elect(request: Request, topic: str, index: int, answer: Any, wanted: list[Wanted]) -> Error:
    controller = request.broker.host.controller
    partition = controller.image.partition(topic, index)
    unclean = request.body.election_type == UNCLEAN
    error = Error.NONE
    if partition is None:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
    elif unclean:
        if partition.leader != NO_LEADER:
            error = Error.ELECTION_NOT_NEEDED
        elif not any(controller.image.alive(replica) for replica in partition.replicas):
            error = Error.ELIGIBLE_LEADERS_NOT_AVAILABLE
    elif partition.leader == partition.replicas[0]:
        error = Error.ELECTION_NOT_NEEDED
    elif partition.replicas[0] not in partition.isr or not controller.image.alive(partition.replicas[0]):
        error = Error.PREFERRED_LEADER_NOT_AVAILABLE
    if error:
        answer.error_message = error.name.lower().replace("_", " ")
        return request.failed(error)
    assert partition is not None
    controller.elect_leader(topic, index, unclean=unclean)
    wanted.append(Wanted(topic, index, None if unclean else partition.replicas[0], answer))
    return Error.REQUEST_TIMED_OUT
