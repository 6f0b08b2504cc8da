"""ShareAcknowledge (key 79): acknowledges records of a share group, outside of a fetch, or ends a session (KIP-932)."""

from collections.abc import Mapping

from broker.coordinator.runtime.completion import Completion
from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.response_errors import message_of
from broker.handlers.share_acknowledgements import begin_acknowledgements, checked_member
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.share_partitions.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionId, SessionKey
from broker.wire.api.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from broker.wire.errors import ErrorCode, KafkaError


def share_acknowledge(context: BrokerContext, request: ShareAcknowledgeRequest) -> Work[ShareAcknowledgeResponse]:
    manager = context.services.shares.partitions
    group_id, member_id = checked_member(context, request)
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "An acknowledgement begins no share session.")
    session = manager.sessions.begin_request(SessionKey(group_id, member_id), epoch)
    completions = yield from begin_acknowledgements(context, request, group_id, member_id)
    for completion in completions.values():
        yield from completion
    if epoch == FINAL_EPOCH:
        manager.end_session(session)
    response = _response(context, completions)
    response.acquisition_lock_timeout_ms = manager.settings(group_id).record_lock_duration_ms
    return response


def _response(context: BrokerContext, completions: Mapping[PartitionId, Completion[None]]) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leader_ids: dict[int, None] = {}
    for (topic_id, index), completion in completions.items():
        data = PartitionData(partition_index=index)
        error = completion.outcome
        if isinstance(error, KafkaError):
            data.error_code, data.error_message = error.code, message_of(error)
            leader = current_leader(context, topic_id, index) if error.code in LEADER_CHANGED else None
            if leader is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
                leader_ids[leader.leader_id] = None
        topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id)).partitions.append(data)
    endpoints = [
        NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in leader_endpoints(context, leader_ids)
    ]
    return ShareAcknowledgeResponse(responses=list(topics.values()), node_endpoints=endpoints)


def _refused(_: BrokerContext, __: ShareAcknowledgeRequest, error: KafkaError) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error.code, error_message=message_of(error))


# 200,000 records with a type for each.
HANDLER = Handler(
    ShareAcknowledgeRequest, share_acknowledge, refused=_refused, request_bytes_max=REQUEST_BYTES_MAX // 4
)
