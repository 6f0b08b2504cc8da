"""DescribeQuorum (key 55): the leader of the metadata quorum, and the log ends of its replicas (KIP-595, KIP-836).

Only the leader knows the other replicas' log ends, so brokers forward the request. A replica that does not lead
answers NOT_LEADER_OR_FOLLOWER, as for any other partition.
"""

from typing import Final

from broker.handlers.response_errors import code_of, message_of
from broker.handlers.voters import NOT_LEADING, controller_listener, directory_bytes, endpoint_of
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft.core import VoterSet
from kraft.description import QuorumDescription
from kraft.description import ReplicaState as State
from metadata.protocol import AclOperation

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0
_UNKNOWN: Final = "The only partition that has a quorum is __cluster_metadata-0."


def describe_quorum(context: ControllerContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics] != [
        (METADATA_TOPIC, [METADATA_PARTITION])
    ]:
        return _failed(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN)
    services = context.services
    quorum = services.quorum.describe()
    if quorum.leader_id != services.config.node_id or not quorum.voter_states:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, NOT_LEADING)
    partition = _describe(quorum)
    return DescribeQuorumResponse(
        error_message=None,
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=_nodes(quorum.voters, controller_listener(context)),
    )


def refused(context: ControllerContext, request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    if error.code is ErrorCode.NOT_CONTROLLER:
        return _failed(request, ErrorCode.NOT_LEADER_OR_FOLLOWER, message_of(error))
    return DescribeQuorumResponse(error_code=code_of(error), error_message=message_of(error))


def _failed(request: DescribeQuorumRequest, code: ErrorCode, message: str | None) -> DescribeQuorumResponse:
    """The response with this error for every partition of the request."""
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionData(partition_index=partition.partition_index, error_code=code, error_message=message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _describe(quorum: QuorumDescription) -> PartitionData:
    assert quorum.leader_id is not None, "it is this node"
    return PartitionData(
        partition_index=METADATA_PARTITION,
        error_message=None,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_state(state) for state in quorum.voter_states],
        observers=[_state(state) for state in quorum.observer_states],
    )


def _state(state: State) -> ReplicaState:
    return ReplicaState(
        replica_id=state.key.node_id,
        replica_directory_id=directory_bytes(state.key),
        log_end_offset=state.log_end_offset,
        last_fetch_timestamp=state.last_fetch_ms,
        last_caught_up_timestamp=state.last_caught_up_ms,
    )


def _nodes(voters: VoterSet, listener_name: str) -> list[Node]:
    return [
        Node(node_id=voter.node_id, listeners=[Listener(name=listener_name, host=endpoint.host, port=endpoint.port)])
        for voter in voters.voters
        if (endpoint := endpoint_of(voter)) is not None
    ]


HANDLER = Handler(
    DescribeQuorumRequest,
    describe_quorum,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refused,
    operation=AclOperation.DESCRIBE,
    forwarded=True,
)
