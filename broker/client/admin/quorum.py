"""The controllers' quorum: leader, voters, progress of each replica; calls that add and remove voters (KIP-853)."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.types import NodeId, Port, Uuid
from broker.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from broker.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestedPartition,
    RequestedTopic,
)
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from broker.wire.api.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from broker.wire.errors import ErrorCode, KafkaError

METADATA_TOPIC: Final = "__cluster_metadata"
_UNKNOWN: Final = -1


class RaftEndpoint(NamedTuple):
    """An address of a controller. `listener` is the listener's name."""

    listener: str
    host: str
    port: Port


@attrs.frozen
class QuorumReplica:
    """A replica of the metadata log. Times are those of the leader's clock, None where they are unknown.

    `directory_id` is zeros where the replica does not report it.
    """

    id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@attrs.frozen
class QuorumDescription:
    """`leader_id` is None while no leader is known; `endpoints` are those of the voters."""

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[RaftEndpoint, ...]]


class QuorumCalls(Routing):
    """Calls on the controllers' quorum."""

    async def describe_metadata_quorum(self, *, timeout_ms: float | None = None) -> QuorumDescription:
        """Describes the quorum of controllers: leader, voters and observers. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> QuorumDescription:
            topic = RequestedTopic(topic_name=METADATA_TOPIC, partitions=[RequestedPartition(partition_index=0)])
            response: DescribeQuorumResponse = await broker.call(DescribeQuorumRequest(topics=[topic]))
            check(response.error_code, response.error_message)
            return _description(response)

        return await self._ask_any(ask, timeout_ms)

    async def add_raft_voter(
        self,
        voter_id: NodeId,
        directory_id: Uuid,
        endpoints: Sequence[RaftEndpoint],
        *,
        cluster_id: str | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Makes a running controller a voter. `directory_id` is that of its metadata log. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> None:
            request = AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=deadline.request_timeout_ms,
                voter_id=voter_id,
                voter_directory_id=directory_id,
                listeners=[Listener(name=each.listener, host=each.host, port=each.port) for each in endpoints],
            )
            response: AddRaftVoterResponse = await broker.call(request)
            check(response.error_code, response.error_message)

        await self._ask_controller(ask, timeout_ms)

    async def remove_raft_voter(
        self, voter_id: NodeId, directory_id: Uuid, *, cluster_id: str | None = None, timeout_ms: float | None = None
    ) -> None:
        """Makes a voter an observer, which no longer votes. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> None:
            request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)
            response: RemoveRaftVoterResponse = await broker.call(request)
            check(response.error_code, response.error_message)

        await self._ask_controller(ask, timeout_ms)

    async def unregister_controller(self, controller_id: NodeId, *, timeout_ms: float | None = None) -> None:
        """Removes the registration of a controller that was shut down for good (KIP-1312). Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> None:
            request = UnregisterControllerRequest(controller_id=controller_id)
            response: UnregisterControllerResponse = await broker.call(request)
            check(response.error_code, response.error_message)

        await self._ask_controller(ask, timeout_ms)


def _description(response: DescribeQuorumResponse) -> QuorumDescription:
    """Raises KafkaError, also where the response does not describe the metadata log."""
    described = [each for topic in response.topics for each in topic.partitions]
    if not described:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The response describes no quorum.")
    partition = described[0]
    check(partition.error_code, partition.error_message)
    return QuorumDescription(
        leader_id=None if partition.leader_id == _UNKNOWN else partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(map(_replica, partition.current_voters)),
        observers=tuple(map(_replica, partition.observers)),
        endpoints={
            node.node_id: tuple(RaftEndpoint(each.name, each.host, each.port) for each in node.listeners)
            for node in response.nodes
        },
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        id=state.replica_id,
        directory_id=state.replica_directory_id,
        log_end_offset=state.log_end_offset,
        last_fetch_ms=None if state.last_fetch_timestamp == _UNKNOWN else state.last_fetch_timestamp,
        last_caught_up_ms=None if state.last_caught_up_timestamp == _UNKNOWN else state.last_caught_up_timestamp,
    )
