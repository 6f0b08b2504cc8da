"""The requests and responses between replicas, named after Kafka's RPCs (KIP-595, KIP-630, KIP-853, KIP-996).

Every request carries its sender's epoch, and every response the responder's epoch and leader. A new epoch therefore
reaches both sides of any exchange.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from kraft import lazy_attrs
from kraft.bounds import (
    BATCHES_MAX,
    Address,
    Count,
    Epoch,
    NodeId,
    NodeIds,
    Offset,
    Payload,
    Position,
    Sentence,
    TimeoutMs,
)
from kraft.core.log_state import OffsetAndEpoch
from kraft.core.voters import ReplicaKey, Voter
from kraft.replicated_log import Batch


class Error(StrEnum):
    """Error codes, by Kafka's names."""

    NONE = "NONE"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    INVALID_VOTER_KEY = "INVALID_VOTER_KEY"
    SNAPSHOT_NOT_FOUND = "SNAPSHOT_NOT_FOUND"
    DUPLICATE_VOTER = "DUPLICATE_VOTER"
    VOTER_NOT_FOUND = "VOTER_NOT_FOUND"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    INVALID_REQUEST = "INVALID_REQUEST"


@lazy_attrs.frozen
class CurrentLeader:
    """The responder's epoch and leader. `leader_address` is the leader's "host:port", or "" if it is unknown."""

    epoch: Epoch
    leader_id: NodeId | None = None
    leader_address: Address = ""


@lazy_attrs.frozen
class VoteRequest:
    """Requests the vote of `voter` in `epoch`, or, with `pre_vote`, its pre-vote for the next epoch (KIP-996)."""

    epoch: Epoch
    candidate: ReplicaKey
    voter: ReplicaKey
    log_end: OffsetAndEpoch
    pre_vote: bool


@lazy_attrs.frozen
class VoteResponse:
    current_leader: CurrentLeader
    granted: bool
    error: Error = Error.NONE


@lazy_attrs.frozen
class BeginEpochRequest:
    """The leader announces itself to a voter that does not fetch from it."""

    epoch: Epoch
    leader_id: NodeId
    leader_address: Address
    voter: ReplicaKey


@lazy_attrs.frozen
class BeginEpochResponse:
    current_leader: CurrentLeader
    error: Error = Error.NONE


@lazy_attrs.frozen
class EndEpochRequest:
    """The leader resigns. `preferred_successors` are the node ids of the voters, those with the longest logs first."""

    epoch: Epoch
    leader_id: NodeId
    preferred_successors: NodeIds


@lazy_attrs.frozen
class EndEpochResponse:
    current_leader: CurrentLeader
    error: Error = Error.NONE


@lazy_attrs.frozen
class FetchRequest:
    """Requests the entries from `log_end` on. The entries below are durable at the sender.

    `high_watermark` is the sender's. The leader responds at once if its own is higher (KIP-1166).
    """

    epoch: Epoch
    replica: ReplicaKey
    log_end: OffsetAndEpoch
    high_watermark: Offset


@lazy_attrs.frozen
class FetchResponse:
    """Holds batches, which may be none, or the position where the logs diverge, or a snapshot to fetch first."""

    current_leader: CurrentLeader
    high_watermark: Offset
    error: Error = Error.NONE
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    batches: Annotated[tuple[Batch, ...], Count(BATCHES_MAX)] = ()


@lazy_attrs.frozen
class FetchSnapshotRequest:
    """Requests bytes of a snapshot from `position` on."""

    epoch: Epoch
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: Position


@lazy_attrs.frozen
class FetchSnapshotResponse:
    """Holds the bytes at `position`. `size_bytes` is the size of the whole snapshot."""

    current_leader: CurrentLeader
    size_bytes: Position = 0
    position: Position = 0
    data: Payload = b""
    error: Error = Error.NONE


@lazy_attrs.frozen
class AddVoterRequest:
    """Adds an observer to the voters once it has caught up.

    The response is sent after the change is committed, or, without `ack_when_committed`, as soon as it is in the
    leader's log (KIP-1186).
    """

    voter: Voter
    timeout_ms: TimeoutMs
    ack_when_committed: bool = True


@lazy_attrs.frozen
class RemoveVoterRequest:
    key: ReplicaKey
    timeout_ms: TimeoutMs


@lazy_attrs.frozen
class UpdateVoterRequest:
    """Updates a voter's address, or adds its directory id to the voter set."""

    voter: Voter
    timeout_ms: TimeoutMs


@lazy_attrs.frozen
class VoterChangeResponse:
    current_leader: CurrentLeader
    error: Error = Error.NONE
    message: Sentence = ""


VoterChangeRequest: TypeAlias = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
Request: TypeAlias = (
    VoteRequest | BeginEpochRequest | EndEpochRequest | FetchRequest | FetchSnapshotRequest | VoterChangeRequest
)
Response: TypeAlias = (
    VoteResponse | BeginEpochResponse | EndEpochResponse | FetchResponse | FetchSnapshotResponse | VoterChangeResponse
)

_RESPONSES: Final[Mapping[type[Request], type[Response]]] = {
    VoteRequest: VoteResponse,
    BeginEpochRequest: BeginEpochResponse,
    EndEpochRequest: EndEpochResponse,
    FetchRequest: FetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
    AddVoterRequest: VoterChangeResponse,
    RemoveVoterRequest: VoterChangeResponse,
    UpdateVoterRequest: VoterChangeResponse,
}


def is_answer(request: Request, response: Response) -> bool:
    """True if the type of `response` matches the type of `request`."""
    return type(response) is _RESPONSES[type(request)]


def sender_is(request: Request, sender: ReplicaKey) -> bool:
    """True if `request` names `sender` as its sender. No replica may send requests for another one."""
    match request:
        case VoteRequest():
            return request.candidate == sender
        case BeginEpochRequest() | EndEpochRequest():
            return request.leader_id == sender.node_id
        case FetchRequest() | FetchSnapshotRequest():
            return request.replica == sender
        case UpdateVoterRequest():
            return request.voter.key == sender
    return False
