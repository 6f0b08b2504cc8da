"""The effects of a core. `kraft.core.core` defines their order, and what has to be durable before what."""

from typing import TypeAlias

from kraft import lazy_attrs
from kraft.core.log_state import OffsetAndEpoch
from kraft.core.messages import CurrentLeader, FetchResponse, FetchSnapshotRequest, Request, Response
from kraft.core.transitions import Cause, Role
from kraft.core.voters import ReplicaKey
from kraft.replicated_log import Batch


@lazy_attrs.frozen
class ElectionState:
    """The highest epoch that a replica has seen and its vote in that epoch, which must survive a crash."""

    epoch: int = 0
    voted_for: ReplicaKey | None = None


@lazy_attrs.frozen
class PersistElection:
    """Make `state` durable before performing the effects after this one."""

    state: ElectionState


@lazy_attrs.frozen
class TruncateLog:
    """Remove the entries from `end_offset` on."""

    end_offset: int


@lazy_attrs.frozen
class AppendLog:
    """Append the batches to the log, sync it at any later time, and report `LogSynced`."""

    batches: tuple[Batch, ...]


@lazy_attrs.frozen
class Send:
    """Send a request to a node. `address` is its "host:port", or "" if the core does not know it.

    Negative destinations are bootstrap servers: -1 is the first, -2 the second.
    """

    destination: int
    address: str
    request: Request


@lazy_attrs.frozen
class Answer:
    """Send the response to the request of `token`."""

    token: int
    response: Response


@lazy_attrs.frozen
class AnswerEntries:
    """Send `response` with whole batches from `offset` on, up to the size limit of a response."""

    token: int
    response: FetchResponse
    offset: int


@lazy_attrs.frozen
class AnswerSnapshot:
    """Send the bytes of a snapshot that `request` asks for, or SNAPSHOT_NOT_FOUND."""

    token: int
    request: FetchSnapshotRequest
    current_leader: CurrentLeader


@lazy_attrs.frozen
class WriteSnapshot:
    """Write bytes of a snapshot that is being fetched. Position 0 discards the bytes written before."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes


@lazy_attrs.frozen
class DiscardSnapshot:
    """Delete the bytes of a snapshot that is no longer being fetched."""

    snapshot: OffsetAndEpoch


@lazy_attrs.frozen
class InstallSnapshot:
    """Make the complete snapshot durable, empty the log, and report `SnapshotInstalled` or `SnapshotRefused`."""

    snapshot: OffsetAndEpoch


@lazy_attrs.frozen
class TruncatePrefix:
    """Remove the entries below the snapshot's offset."""

    snapshot: OffsetAndEpoch


@lazy_attrs.frozen
class Committed:
    """The entries below `end_offset` are committed."""

    end_offset: int


@lazy_attrs.frozen
class RoleChanged:
    """The role, the epoch or the leader has changed. The driver notifies the state machines and the trace."""

    role: Role
    epoch: int
    leader_id: int | None
    cause: Cause


@lazy_attrs.frozen
class RefusedEpoch:
    """For the trace: replica `source` sent the epoch `told`, which is not plausible after `own`."""

    source: int
    own: int
    told: int


@lazy_attrs.frozen
class RefusedTruncation:
    """For the trace: leader `source` requested truncation to `end_offset`, below the high watermark."""

    source: int
    end_offset: int
    high_watermark: int


# Effects that wait for the disk.
WaitingEffect: TypeAlias = PersistElection | TruncateLog | InstallSnapshot | DiscardSnapshot | TruncatePrefix
Effect: TypeAlias = (
    PersistElection
    | TruncateLog
    | AppendLog
    | Send
    | Answer
    | AnswerEntries
    | AnswerSnapshot
    | WriteSnapshot
    | DiscardSnapshot
    | InstallSnapshot
    | TruncatePrefix
    | Committed
    | RoleChanged
    | RefusedEpoch
    | RefusedTruncation
)
