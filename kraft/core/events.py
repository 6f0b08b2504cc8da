"""What can happen to a core. Whoever drives it reports each of these once, in the order in which they happened."""

from typing import TypeAlias

import attrs

from kraft.core.log_state import OffsetAndEpoch
from kraft.core.messages import Request, Response
from kraft.core.voters import VoterSet


@attrs.frozen
class Tick:
    """The core's deadline has passed. A tick too many does no harm."""


@attrs.frozen
class Received:
    """A request came in. `token` is the driver's: the answer will name it.

    `is_stranger` says that its sender is neither a voter (`Core.names_voter`) nor a node that this replica has itself
    connected to, at the address of a voter or a bootstrap server.
    """

    token: int
    request: Request
    is_stranger: bool = False


@attrs.frozen
class Responded:
    """The answer to a `Send`: `request` is the very object that was sent to `destination`."""

    destination: int
    request: Request
    response: Response


@attrs.frozen
class RequestFailed:
    """A `Send` that will never be answered: the connection broke, or the request timed out."""

    destination: int
    request: Request


@attrs.frozen
class ConnectionReset:
    """The connection to a node broke in a way that its process's death explains."""

    node_id: int


@attrs.frozen
class LogSynced:
    """Everything up to `end` is durable: the log ended there, with that epoch, when the sync began."""

    end: OffsetAndEpoch


@attrs.frozen
class Append:
    """The state machine's records, for one batch. Only to be reported while this replica leads."""

    records: tuple[bytes, ...]
    append_time_ms: int


@attrs.frozen
class SnapshotTaken:
    """A durable snapshot of the state after everything below `snapshot.offset` exists here; the log may start there."""

    snapshot: OffsetAndEpoch


@attrs.frozen
class SnapshotInstalled:
    """A fetched snapshot is durable and in place, and the log behind it is empty. `voters` are those it names."""

    snapshot: OffsetAndEpoch
    voters: VoterSet


@attrs.frozen
class SnapshotRefused:
    """The bytes of a fetched snapshot are not one: what was fetched is gone, and the log is as it was."""

    snapshot: OffsetAndEpoch


@attrs.frozen
class Leave:
    """This node is about to stop: it never stands for election again, and if it leads, it hands over."""


Event: TypeAlias = (
    Tick
    | Received
    | Responded
    | RequestFailed
    | ConnectionReset
    | LogSynced
    | Append
    | SnapshotTaken
    | SnapshotInstalled
    | SnapshotRefused
    | Leave
)
