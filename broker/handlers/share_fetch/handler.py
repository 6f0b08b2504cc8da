"""ShareFetch (key 78): acquires records for a member of a share group, and acknowledges earlier ones (KIP-932).

Acknowledgements come before the acquisition, and the response waits until they are stored. Version 2 adds the mode of
acquisition (KIP-1206), and renewals of locks (KIP-1222), which come without an acquisition.
"""

from collections.abc import Mapping
from typing import Final

from broker.coordinator.runtime.completion import Completion
from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.response_errors import message_of
from broker.handlers.share_acknowledgements import begin_acknowledgements, checked_member
from broker.handlers.share_fetch.delayed_share_fetch import DelayedShareFetch
from broker.handlers.share_fetch.share_reader import FetchLimits, ShareReader
from broker.net.completion import RequestWait
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import Steps
from broker.share_partitions.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionId,
    SessionKey,
    ShareSession,
)
from broker.wire.api.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import ShareAcquireMode

_MODES: Final = frozenset(ShareAcquireMode)
_STEP_PARTITIONS: Final = 64


def share_fetch(context: BrokerContext, request: ShareFetchRequest) -> Work[ShareFetchResponse]:
    manager = context.services.shares.partitions
    group_id, member_id = checked_member(context, request)
    _check_request(request)
    context.services.partitions.commit_staged()  # records appended earlier in this turn become readable
    try:
        session = _begin(context, request, SessionKey(group_id, member_id))
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            yield from _pause(context, request.max_wait_ms)  # the member tries again at once
        raise
    epoch = request.share_session_epoch
    acknowledged = yield from begin_acknowledgements(context, _acknowledging(request), group_id, member_id)
    reader = ShareReader(context, group_id, member_id, _limits(context, request))
    if epoch != FINAL_EPOCH and not request.is_renew_ack:
        yield from _fetch(context, request, session, reader)
    for completion in acknowledged.values():
        yield from completion
    if epoch == FINAL_EPOCH:
        manager.end_session(session)
    context.charge(reader.size)
    response = yield from _response(context, reader, acknowledged)
    response.acquisition_lock_timeout_ms = manager.settings(group_id).record_lock_duration_ms
    return response


def _check_request(request: ShareFetchRequest) -> None:
    """Raises KafkaError INVALID_REQUEST."""
    if request.share_acquire_mode not in _MODES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown share acquire mode: {request.share_acquire_mode}")
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if request.is_renew_ack and any(limits):
        message = "maxBytes, minBytes, maxRecords and maxWaitMs must be set to 0, if isRenewAck is true."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _begin(context: BrokerContext, request: ShareFetchRequest, key: SessionKey) -> ShareSession:
    """Open a session, or begin another request of one. Raises KafkaError, as `ShareSessions` does."""
    sessions, epoch = context.services.shares.partitions.sessions, request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A request that opens a session acknowledges nothing.")
        limit = context.services.config.group_share_max_share_sessions
        session = sessions.open(key, context.own_connection, limit)
    else:
        session = sessions.begin_request(key, epoch)
    if epoch != FINAL_EPOCH:
        named = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        session.update(named, forgotten)
    return session


def _acknowledging(request: ShareFetchRequest) -> ShareFetchRequest:
    """The part of a request that acknowledges records: most partitions are only named to be fetched."""
    for topic in request.topics:
        topic.partitions = [each for each in topic.partitions if each.acknowledgement_batches]
    return request


def _limits(context: BrokerContext, request: ShareFetchRequest) -> FetchLimits:
    max_bytes, charging = min(request.max_bytes, context.services.config.fetch_max_bytes), context.server.charging
    if charging is not None:
        max_bytes = int(min(max_bytes, charging.fetched_bytes_max(context.session, context.client_id)))
    return FetchLimits(request.max_records, max_bytes, request.batch_size, ShareAcquireMode(request.share_acquire_mode))


def _fetch(
    context: BrokerContext, request: ShareFetchRequest, session: ShareSession, reader: ShareReader
) -> Work[None]:
    """Acquire records, at once or when there are some. A `min_bytes` of 0 waits for the first load alone."""
    if request.max_records <= 0 or request.max_bytes <= 0:
        return
    yield from reader.open(session.rotated(request.share_session_epoch))
    min_bytes = min(request.min_bytes, request.max_bytes)
    wait = DelayedShareFetch(context, reader, session, min_bytes)
    try:
        for led in reader.led:
            wait.watch(led)  # before the first step after which the share-partition may change
        if min_bytes <= 1 or request.max_wait_ms <= 0 or wait.has_enough():
            yield from reader.acquire_all()
        is_satisfied = reader.can_respond or (min_bytes <= 0 and reader.has_loaded)
        if request.max_wait_ms > 0 and not is_satisfied:
            wait.begin(request.max_wait_ms)
            yield from wait
            if not reader.deliveries:
                yield from reader.acquire_all()
    finally:
        wait.abandon()


class _Pause(RequestWait[None]):
    """Waits for a time."""

    __slots__ = ()


def _pause(context: BrokerContext, wait_ms: int) -> Work[None]:
    pause = _Pause()
    pause.expire_in(context.services.deadlines, max(0, wait_ms) / 1000, lambda: pause.complete(None))
    yield from pause


def _response(
    context: BrokerContext, reader: ShareReader, acknowledged: Mapping[PartitionId, Completion[None]]
) -> Steps[ShareFetchResponse]:
    """The partitions with records, with an error, or with acknowledgements."""
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    leader_ids: dict[int, None] = {}
    partition_ids = dict.fromkeys((*reader.deliveries, *reader.errors, *acknowledged))
    for number, partition_id in enumerate(partition_ids, 1):
        topic_id = partition_id[0]
        data = _partition_data(context, reader, acknowledged, partition_id)
        if ErrorCode(data.error_code or data.acknowledge_error_code) in LEADER_CHANGED:
            leader = current_leader(context, *partition_id)
            if leader is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
                leader_ids[leader.leader_id] = None
        topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id)).partitions.append(data)
        if not number % _STEP_PARTITIONS:
            yield
    endpoints = [
        NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in leader_endpoints(context, leader_ids)
    ]
    return ShareFetchResponse(responses=list(topics.values()), node_endpoints=endpoints)


def _partition_data(
    context: BrokerContext,
    reader: ShareReader,
    acknowledged: Mapping[PartitionId, Completion[None]],
    partition_id: PartitionId,
) -> PartitionData:
    data = PartitionData(partition_index=partition_id[1])
    delivery, error = reader.deliveries.get(partition_id), reader.errors.get(partition_id)
    if delivery is not None and delivery.records is not None:
        data.records = delivery.records
        data.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in delivery.acquired
        ]
    elif error is not None:
        data.error_code, data.error_message = error.code, message_of(error)
    completion = acknowledged.get(partition_id)
    refusal = None if completion is None else completion.outcome
    if refusal is not None:
        data.acknowledge_error_code, data.acknowledge_error_message = refusal.code, message_of(refusal)
    return data


def _refused(_: BrokerContext, __: ShareFetchRequest, error: KafkaError) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error.code, error_message=message_of(error))


# Some 10,000 partitions of a new session, or 200,000 records with a type for each.
HANDLER = Handler(
    ShareFetchRequest,
    share_fetch,
    refused=_refused,
    request_bytes_max=REQUEST_BYTES_MAX // 4,
    in_turns=True,
)
