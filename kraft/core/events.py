"""The events of a core. The driver reports each event once, in the order in which they happened."""

from typing import TypeAlias

from kraft import lazy_attrs
from kraft.core.log_state import OffsetAndEpoch
from kraft.core.messages import Request, Response
from kraft.core.voters import VoterSet


@lazy_attrs.frozen
class Tick:
    """The core's deadline has passed. An early or repeated tick is harmless."""


@lazy_attrs.frozen
class Received:
    """A request was received. The driver chooses `token`, and the effect that answers the request carries it.

    `is_unknown_peer` is True if the sender is neither a voter (`Core.names_voter`) nor a node to which this replica has
    connected, at the address of a voter or a bootstrap server.
    """

    token: int
    request: Request
    is_unknown_peer: bool = False


@lazy_attrs.frozen
class Responded:
    """The response to a `Send`. `request` is the same object that was sent to `destination`."""

    destination: int
    request: Request
    response: Response


@lazy_attrs.frozen
class RequestFailed:
    """A `Send` that gets no response: the connection broke, or the request timed out."""

    destination: int
    request: Request


@lazy_attrs.frozen
class ConnectionReset:
    """The connection to a node was reset or refused, as happens when its process dies."""

    node_id: int


@lazy_attrs.frozen
class LogSynced:
    """The log is durable up to `end`, which was the log's end when the sync began."""

    end: OffsetAndEpoch


@lazy_attrs.frozen
class Append:
    """The state machine appends records, which become one batch. Reported only while this replica leads."""

    records: tuple[bytes, ...]
    append_time_ms: int


@lazy_attrs.frozen
class SnapshotTaken:
    """This replica has a durable snapshot of the state at `snapshot.offset`. The log may start there."""

    snapshot: OffsetAndEpoch


@lazy_attrs.frozen
class SnapshotInstalled:
    """A fetched snapshot is durable and installed, and the log after it is empty. `voters` are the snapshot's."""

    snapshot: OffsetAndEpoch
    voters: VoterSet


@lazy_attrs.frozen
class SnapshotRefused:
    """A fetched snapshot is malformed. Its bytes are deleted, and the log is unchanged."""

    snapshot: OffsetAndEpoch


@lazy_attrs.frozen
class Leave:
    """This node is about to stop. It resigns if it leads, and never stands for election again."""


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
