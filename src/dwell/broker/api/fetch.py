"""Fetch: read records, or wait until there are enough."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dwell.broker.api.place import current_leader, node_endpoints
from dwell.broker.delayed.fetch import NOT_SENT, DelayedFetch, FetchPartition
from dwell.broker.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, wanted
from dwell.broker.request import PARKED
from dwell.broker.wire.error import Error
from dwell.broker.wire.message.fetch import FETCH

if TYPE_CHECKING:
    from dwell.broker.broker import Broker
    from dwell.broker.request import Request

# The first version that names topics by their ids.
TOPIC_IDS = 13
READ_COMMITTED = 1

EMPTY = b""


def handle(request: Request) -> object:
    body = request.body
    broker = request.broker
    uses_topic_ids = request.version >= TOPIC_IDS
    session: FetchSession | None = None
    is_incremental = False
    epoch = body.session_epoch
    if epoch == FINAL_EPOCH:
        broker.fetch_sessions.close(body.session_id)
        partitions = [one for _, one in wanted(body.topics, uses_topic_ids)]
    elif epoch == INITIAL_EPOCH:
        broker.fetch_sessions.close(body.session_id)
        session = broker.fetch_sessions.open(uses_topic_ids, broker.now_ms())
        if session is None:
            partitions = [one for _, one in wanted(body.topics, uses_topic_ids)]
        else:
            session.update(body.topics, ())
            partitions = list(session.partitions.values())
    else:
        found = broker.fetch_sessions.go_on(body.session_id, epoch, uses_topic_ids, broker.now_ms())
        if isinstance(found, Error):
            return FETCH.Response(error_code=request.failed(found))
        session = found
        is_incremental = True
        session.update(body.topics, body.forgotten_topics_data)
        partitions = list(session.partitions.values())

    size = 0
    for one in partitions:
        find(broker, one)
        one.error = one.judge()
    must_answer = body.max_wait_ms <= 0 or all(one.is_unknown for one in partitions)
    for one in partitions:
        if one.is_unknown:
            continue
        if one.error or one.diverging() is not None:
            must_answer = True
        else:
            size += one.readable
    read = partial(respond, request, session, is_incremental, partitions)
    if must_answer or size >= body.min_bytes:
        return read()
    DelayedFetch(request, body.max_wait_ms, body.min_bytes, partitions, read).park()
    return PARKED


def find(broker: Broker, one: FetchPartition) -> None:
    """Look up the partition and the byte position of its offset."""
    topic = one.topic
    if topic is None:
        topic = broker.image.names.get(one.topic_id or EMPTY)
        if topic is None:
            one.partition, one.error = None, Error.UNKNOWN_TOPIC_ID
            return
    partition = broker.partitions.get((topic, one.index))
    one.partition = partition
    if partition is None:
        known = broker.image.partition(topic, one.index) is not None
        one.error = Error.NOT_LEADER_OR_FOLLOWER if known else Error.UNKNOWN_TOPIC_OR_PARTITION
    else:
        one.position = partition.log.position(one.offset)


def respond(
    request: Request, session: FetchSession | None, is_incremental: bool, partitions: list[FetchPartition]
) -> object:
    """The answer from what is readable now: whole batches, and at least one even if it is larger than allowed."""
    body = request.body
    broker = request.broker
    left = min(body.max_bytes, broker.host.config["fetch.max.bytes"])
    committed = body.isolation_level == READ_COMMITTED
    at_least_one = True
    topics: list[Any] = []
    served: list[FetchPartition] = []
    leaders: set[int] = set()
    for one in partitions:
        answer, size = _read(request, one, min(left, one.max_bytes), at_least_one, committed, leaders)
        if size:
            at_least_one = False
            left = max(0, left - size)
            served.append(one)
        if is_incremental and not _is_news(one, answer, size):
            continue
        one.sent_high_watermark = answer.high_watermark
        one.sent_log_start = answer.log_start_offset
        if answer.error_code:
            # Whatever comes next is news.
            one.sent_high_watermark = NOT_SENT
        if not topics or topics[-1].topic != (one.topic or "") or topics[-1].topic_id != (one.topic_id or bytes(16)):
            topics.append(
                FETCH.Response.FetchableTopicResponse(
                    topic=one.topic or "", topic_id=one.topic_id or bytes(16), partitions=[]
                )
            )
        topics[-1].partitions.append(answer)
    if session is not None:
        for one in served:
            session.served_last((one.topic_id if one.topic is None else one.topic, one.index))  # type: ignore[arg-type]
    return FETCH.Response(
        session_id=NO_SESSION if session is None else session.id,
        responses=topics,
        node_endpoints=node_endpoints(broker, leaders),
    )


def _is_news(one: FetchPartition, answer: Any, size: int) -> bool:
    return bool(
        size
        or answer.error_code
        or answer.diverging_epoch is not None
        or answer.high_watermark != one.sent_high_watermark
        or answer.log_start_offset != one.sent_log_start
    )


def _read(
    request: Request, one: FetchPartition, max_bytes: int, at_least_one: bool, committed: bool, leaders: set[int]
) -> tuple[Any, int]:
    error = one.judge()
    partition = one.partition
    if error or partition is None:
        failed = FETCH.Response.PartitionData(
            partition_index=one.index,
            error_code=request.failed(error),
            high_watermark=-1,
            aborted_transactions=[] if one.is_unknown else None,
            records=EMPTY,
        )
        if error in (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH):
            name = one.topic or request.broker.image.names.get(one.topic_id or EMPTY, "")
            failed.current_leader = current_leader(
                request.broker, name, one.index, FETCH.Response.LeaderIdAndEpoch, leaders
            )
        return failed, 0
    end = partition.last_stable_offset if committed else partition.high_watermark
    answer = FETCH.Response.PartitionData(
        partition_index=one.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        aborted_transactions=[] if committed else None,
        records=EMPTY,
    )
    diverging = one.diverging()
    if diverging is not None:
        answer.diverging_epoch = FETCH.Response.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        return answer, 0
    batches = partition.log.read(one.offset, end, max_bytes, at_least_one)
    if not batches:
        return answer, 0
    pieces = [piece for batch in batches for piece in (batch.head, batch.tail)]
    answer.records = pieces
    return answer, sum(map(len, pieces))
