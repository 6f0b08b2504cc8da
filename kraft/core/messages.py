"""What replicas say to one another. RequestManager and responses; a response always belongs to one request.

Named after Kafka's RPCs (KIP-595, KIP-630, KIP-853, KIP-996). Every request names its sender's epoch, and every
response the epoch and the leader that the responder knows, so that any exchange spreads the news of a new epoch.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import attrs

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
    """Kafka's names."""

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


@attrs.frozen
class CurrentLeader:
    """The epoch and the leader that a responder knows. `leader_address` is where to find it, "" where unknown."""

    epoch: Epoch
    leader_id: NodeId | None = None
    leader_address: Address = ""


@attrs.frozen
class VoteRequest:
    """Asks `voter` for its vote in `epoch`; with `pre_vote`, whether it would vote in the epoch after (KIP-996)."""

    epoch: Epoch
    candidate: ReplicaKey
    voter: ReplicaKey
    log_end: OffsetAndEpoch
    pre_vote: bool


@attrs.frozen
class VoteResponse:
    current_leader: CurrentLeader
    granted: bool
    error: Error = Error.NONE


@attrs.frozen
class BeginEpochRequest:
    """The leader makes itself known to a voter that does not fetch from it."""

    epoch: Epoch
    leader_id: NodeId
    leader_address: Address
    voter: ReplicaKey


@attrs.frozen
class BeginEpochResponse:
    current_leader: CurrentLeader
    error: Error = Error.NONE


@attrs.frozen
class EndEpochRequest:
    """The leader stops leading; `preferred_successors` are node ids, the one with the longest log first."""

    epoch: Epoch
    leader_id: NodeId
    preferred_successors: NodeIds


@attrs.frozen
class EndEpochResponse:
    current_leader: CurrentLeader
    error: Error = Error.NONE


@attrs.frozen
class FetchRequest:
    """Asks the leader for what follows on `log_end`, which also says that all before is durable at the sender.

    `high_watermark` is what the sender knows to be committed: news of it is worth an answer too (KIP-1166).
    """

    epoch: Epoch
    replica: ReplicaKey
    log_end: OffsetAndEpoch
    high_watermark: Offset


@attrs.frozen
class FetchResponse:
    """Either batches, possibly none; or where the logs diverge; or the snapshot that the sender has to fetch first."""

    current_leader: CurrentLeader
    high_watermark: Offset
    error: Error = Error.NONE
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    batches: Annotated[tuple[Batch, ...], Count(BATCHES_MAX)] = ()


@attrs.frozen
class FetchSnapshotRequest:
    """Asks for bytes of a snapshot from `position` on."""

    epoch: Epoch
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: Position


@attrs.frozen
class FetchSnapshotResponse:
    """`size_bytes` is that of the whole snapshot."""

    current_leader: CurrentLeader
    size_bytes: Position = 0
    position: Position = 0
    data: Payload = b""
    error: Error = Error.NONE


@attrs.frozen
class AddVoterRequest:
    """Make an observer a voter, once it has caught up. Answered when that is committed."""

    voter: Voter
    timeout_ms: TimeoutMs


@attrs.frozen
class RemoveVoterRequest:
    key: ReplicaKey
    timeout_ms: TimeoutMs


@attrs.frozen
class UpdateVoterRequest:
    """A voter's address changed, or its directory id became known."""

    voter: Voter
    timeout_ms: TimeoutMs


@attrs.frozen
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
    """Whether `response` is of the kind that answers `request`."""
    return type(response) is _RESPONSES[type(request)]


def sender_is(request: Request, sender: ReplicaKey) -> bool:
    """Whether `request` is `sender`'s own: no replica speaks for another."""
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
