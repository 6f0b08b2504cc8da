"""What a core wants done. `kraft.core.core` says in which order, and what has to be durable before what."""

from typing import TypeAlias

import attrs

from kraft.core.log_state import OffsetAndEpoch
from kraft.core.messages import CurrentLeader, FetchResponse, FetchSnapshotRequest, Request, Response
from kraft.core.transitions import Cause, Role
from kraft.core.voters import ReplicaKey
from kraft.replicated_log import Batch


@attrs.frozen
class ElectionState:
    """What a replica must never forget: the highest epoch it has seen, and whom it voted for there."""

    epoch: int = 0
    voted_for: ReplicaKey | None = None


@attrs.frozen
class PersistElection:
    """Make `state` durable before anything that comes after this."""

    state: ElectionState


@attrs.frozen
class TruncateLog:
    """Drop what is at `end_offset` and above."""

    end_offset: int


@attrs.frozen
class AppendLog:
    """Write these behind the end of the log; sync when it suits, and report `LogSynced`."""

    batches: tuple[Batch, ...]


@attrs.frozen
class Send:
    """Send to a node. `address` is where the core believes it to be, "" where it does not know.

    A negative destination is no node: -1 is the first of the bootstrap servers, -2 the second, ...
    """

    destination: int
    address: str
    request: Request


@attrs.frozen
class Answer:
    token: int
    response: Response


@attrs.frozen
class AnswerEntries:
    """Answer with `response`, filled with whole batches from `offset` on, as many as one answer should hold."""

    token: int
    response: FetchResponse
    offset: int


@attrs.frozen
class AnswerSnapshot:
    """Answer with the bytes of a snapshot that `request` asks for, or SNAPSHOT_NOT_FOUND."""

    token: int
    request: FetchSnapshotRequest
    current_leader: CurrentLeader


@attrs.frozen
class WriteSnapshot:
    """Keep bytes of a snapshot that is being fetched; position 0 starts it anew."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes


@attrs.frozen
class DiscardSnapshot:
    """What was fetched of this snapshot is of no use any more."""

    snapshot: OffsetAndEpoch


@attrs.frozen
class InstallSnapshot:
    """The fetched snapshot is complete: make it durable, empty the log, and report `SnapshotInstalled`."""

    snapshot: OffsetAndEpoch


@attrs.frozen
class TruncatePrefix:
    """Entries below the snapshot's offset are not needed any more."""

    snapshot: OffsetAndEpoch


@attrs.frozen
class Committed:
    """Everything below `end_offset` is committed."""

    end_offset: int


@attrs.frozen
class RoleChanged:
    """For the driver to tell its state machines and its trace."""

    role: Role
    epoch: int
    leader_id: int | None
    cause: Cause


@attrs.frozen
class RefusedEpoch:
    """For the driver's trace: replica `source` told of the epoch `told`, which is no plausible successor of `own`."""

    source: int
    own: int
    told: int


@attrs.frozen
class RefusedTruncation:
    """For the driver's trace: leader `source` told to truncate to `end_offset`, below what is committed here."""

    source: int
    end_offset: int
    high_watermark: int


# What takes a device to answer.
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
