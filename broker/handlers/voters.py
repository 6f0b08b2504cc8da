"""The quorum's voters, for DescribeQuorum, AddRaftVoter and RemoveRaftVoter (KIP-853)."""

from typing import Final, NamedTuple

from broker.handlers.response_errors import code_of
from broker.server.context import ControllerContext
from broker.server.scheduler import Work, in_task
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import ZERO_UUID, decode_uuid, encode_uuid
from kraft.core import ReplicaKey, Voter
from kraft.core.messages import Error, VoterChangeRequest

NOT_LEADING: Final = "This node does not lead the quorum."


class Endpoint(NamedTuple):
    host: str
    port: int


class Outcome(NamedTuple):
    """The result of a change of the voters; `message` is None if it succeeded."""

    code: ErrorCode
    message: str | None


def endpoint_of(voter: Voter) -> Endpoint | None:
    """The address of a voter; None if it is not known yet."""
    host, _, port = voter.address.rpartition(":")
    return Endpoint(host, int(port)) if host else None


def directory_bytes(key: ReplicaKey) -> bytes:
    """The directory id; zero if it is unknown."""
    return decode_uuid(key.directory_id) if key.directory_id else ZERO_UUID


def replica_key(node_id: int, directory_id: bytes) -> ReplicaKey:
    """The key of these ids. Raises KafkaError INVALID_REQUEST if they cannot belong to a replica."""
    if node_id < 0 or directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A voter is named by its node id and its directory id.")
    return ReplicaKey(node_id, encode_uuid(directory_id))


def controller_listener(context: ControllerContext) -> str:
    """The name of the listener on which controllers connect to each other."""
    return context.services.config.endpoints.advertised_controller_listeners[0].name


def check_cluster(context: ControllerContext, cluster_id: str | None) -> None:
    """Raises KafkaError INCONSISTENT_CLUSTER_ID for another cluster's id; None matches every cluster."""
    expected = context.services.cluster_id
    if cluster_id is not None and cluster_id != expected:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {expected}, but got cluster ID {cluster_id}"
        )


def change_voters(context: ControllerContext, request: VoterChangeRequest) -> Work[Outcome]:
    """Have the quorum change its voters; returns when that is committed, written if that is enough, or has failed.

    Raises KafkaError NOT_CONTROLLER.
    """
    response = yield from in_task(context.services.quorum.change_voters(request))
    if response.error is Error.NONE:
        return Outcome(ErrorCode.NONE, None)
    if response.error is Error.NOT_LEADER_OR_FOLLOWER:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, NOT_LEADING)
    return Outcome(ErrorCode[response.error.name], response.message)


def quorum_code_of(error: KafkaError) -> ErrorCode:
    """The error code for the quorum's APIs, which have another one in place of NOT_CONTROLLER."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code is ErrorCode.NOT_CONTROLLER else code_of(error)
