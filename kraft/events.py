"""Declares the events that a node can report through `Env.trace`, and the events of the quorum.

Each package that emits events has one `EventCatalogue`. `broker.events` joins them. The node's log prints from the
joined catalogue, `docs/events.md` is made from it, and a test compares it with every `trace(...)` call.

A field named `end_offset` is the offset after the last entry.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import attrs

from kraft import lazy_attrs


class Level(IntEnum):
    """The importance of an event for an operator. A log prints its own level and all higher ones."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


# The lines of one kind that a log prints in an interval, for kinds that clients or a single failure can cause in any
# number.
LINES_MAX: Final = 10


@lazy_attrs.frozen
class EventKind:
    """Declares one kind of event: its level, the condition under which it happens, and the meaning of each field.

    `sentence` is the text for an operator, formatted with the fields. Kinds without one are printed as name and fields.
    `traceback` is the name of the field that holds a traceback: the only text that a log prints in several lines.
    `lines_max` bounds the lines that a log prints in an interval; None sets no bound.
    """

    level: Level
    meaning: str
    fields: Mapping[str, str] = attrs.field(factory=dict)
    sentence: str | None = None
    lines_max: int | None = None
    traceback: str | None = None


@lazy_attrs.frozen
class EventCatalogue:
    """The events that the modules of `package` emit, by kind."""

    package: str
    kinds: Mapping[str, EventKind]


_NODE: Final = {"node": "id of the node"}
_EPOCH: Final = {"epoch": "epoch of the quorum"}
_END: Final = {"end_offset": "end offset of the metadata log, or of the snapshot"}
_ENTRIES: Final = {"entries": "(base offset, end offset, epoch) of each batch"}
_REASON: Final = {"reason": "the failure, as text"}

QUORUM_EVENTS: Final = EventCatalogue(
    "kraft",
    {
        "committed": EventKind(Level.DEBUG, "Entries are committed; listeners are called next.", {**_NODE, **_END}),
        "implausible_epoch": EventKind(
            Level.WARNING,
            "Another node named an epoch that no correct quorum can have reached. The epoch is ignored.",
            {**_NODE, **_EPOCH, "told": "epoch that was named", "source": "id of the node that named it"},
            "node {source} named epoch {told}, which no correct quorum can have reached from epoch {epoch}. It is "
            "ignored; look at that node",
            LINES_MAX,
        ),
        "leader_elected": EventKind(
            Level.INFO,
            "This node leads the quorum and has committed an entry of its epoch. It is the active controller.",
            {**_NODE, **_EPOCH, "cause": "why the election began"},
        ),
        "leader_lost": EventKind(
            Level.WARNING,
            "The leader is away, or this node led and lost its majority. Voters ask for an election.",
            {**_NODE, **_EPOCH, "leader": "id of the leader that is lost", "cause": "how this node has noticed it"},
            lines_max=LINES_MAX,
        ),
        "leader_resigned": EventKind(
            Level.INFO,
            "This node no longer leads the quorum.",
            {**_NODE, **_EPOCH, "cause": "why; `epoch` is the epoch afterwards"},
        ),
        "log_cut": EventKind(
            Level.WARNING,
            "Recovery of the metadata log found bytes after the last intact entry and removed them.",
            {**_NODE, "path": "the file", "torn_bytes": "how many bytes were removed", **_END},
            "recovery has cut {torn_bytes} bytes off the end of the metadata log {path}, which ends at offset "
            "{end_offset} now. A power cut leaves such bytes, which were never acknowledged",
        ),
        "log_entries_lost": EventKind(
            Level.ERROR,
            "The disk has lost entries of the metadata log, or a snapshot, that were durable. They are fetched again. "
            "Until then this node is no candidate, and votes only for those that have all that it acknowledged.",
            {
                **_NODE,
                "damage": "what is wrong with the files, as text",
                **_END,
                "lost_end_offset": "end offset of the metadata that this node had",
            },
            "the disk has lost metadata that was durable: {damage}. This node has it up to offset {end_offset} now, of "
            "{lost_end_offset}, and fetches the rest from the other controllers. Look at the disk",
        ),
        "log_entry_damaged": EventKind(
            Level.WARNING,
            "An entry that a follower needs is damaged on this leader's disk. The follower gets an error until a new "
            "snapshot replaces the entry.",
            {**_NODE, "offset": "the offset that the follower needs", **_REASON},
            "{reason}: followers cannot fetch the metadata at offset {offset} from this node until a new snapshot "
            "replaces the entry. Look at the disk",
            LINES_MAX,
        ),
        "log_recovered": EventKind(
            Level.DEBUG,
            "The node has opened its metadata log.",
            {**_NODE, "start_offset": "first offset that the log has", **_END, **_EPOCH, **_ENTRIES},
        ),
        "log_synced": EventKind(Level.DEBUG, "Entries below `end_offset` are durable.", {**_NODE, **_END}),
        "log_truncated": EventKind(Level.DEBUG, "Entries from `end_offset` on are removed durably.", {**_NODE, **_END}),
        "log_written": EventKind(
            Level.DEBUG, "Entries are in the page cache, not yet durable.", {**_NODE, **_END, **_ENTRIES}
        ),
        "majority_unreachable": EventKind(
            Level.WARNING,
            "This voter knows no leader, and lost ten elections: too few voters would vote for it. Printed once until "
            "there is a leader.",
            {**_NODE, **_EPOCH},
            "node {node} knows no leader of the quorum since epoch {epoch}, and lost ten elections: too many voters "
            "are down, or out of its reach. Without a leader, nothing can be created or changed",
        ),
        "quorum_connection_refused": EventKind(
            Level.WARNING,
            "The node that answers at a voter's address is another one, or refuses this node.",
            {**_NODE, "address": "host and port", **_REASON},
            "there is no connection from node {node} to the quorum's node at {address}: {reason}",
            LINES_MAX,
        ),
        "quorum_state_lost": EventKind(
            Level.WARNING,
            "The file of epoch and vote has no intact record, although the log has entries.",
            {**_NODE, "path": "directory of the metadata log"},
            "{path} has no intact record of the epoch and of the vote; this node is the only voter, so it goes on with "
            "the epoch of its log",
        ),
        "role_changed": EventKind(
            Level.DEBUG,
            "The node changes its role in the quorum.",
            {
                **_NODE,
                "role": "new role",
                **_EPOCH,
                "leader": "id of the leader, or null",
                "cause": "transition's cause, see `kraft.core.transitions`",
            },
        ),
        "rpc_connection_ended": EventKind(
            Level.DEBUG, "A connection that another node of the quorum opened has ended.", {**_NODE, **_REASON}
        ),
        "rpc_connection_lost": EventKind(
            Level.DEBUG,
            "A connection that this node opened to a node of the quorum is lost; it is opened again after a pause.",
            {
                "destination": "id of the other node; negative for bootstrap servers",
                "address": "host and port",
                **_REASON,
            },
        ),
        "snapshot_installed": EventKind(
            Level.INFO,
            "A snapshot of the metadata was fetched from the leader and replaces the log.",
            {**_NODE, **_END, "epoch": "epoch of the last entry in the snapshot"},
        ),
        "snapshot_refused": EventKind(
            Level.WARNING,
            "A fetched snapshot is damaged. It is discarded and fetched again.",
            {**_NODE, **_END, "epoch": "epoch of the last entry in the snapshot", **_REASON},
            "the snapshot of the metadata up to offset {end_offset} that was fetched is damaged, and is fetched again: "
            "{reason}",
            LINES_MAX,
        ),
        "snapshot_taken": EventKind(
            Level.DEBUG, "A snapshot of the metadata below `end_offset` is durable.", {**_NODE, **_END}
        ),
        "unsafe_truncation": EventKind(
            Level.WARNING,
            "A leader asked this node to remove committed entries. The node refuses.",
            {**_NODE, **_END, "committed": "end offset of what is committed here", "source": "id of the leader"},
            "leader {source} lacks metadata that is committed: it would have this node cut its log to offset "
            "{end_offset}, below {committed}. That is refused; look for a controller that lost its disk or latest data",
            LINES_MAX,
        ),
        "vote_synced": EventKind(
            Level.DEBUG,
            "The epoch and the vote in it are durable.",
            {**_NODE, **_EPOCH, "voted_for": "id of the candidate, or null"},
        ),
        "voter_directory_differs": EventKind(
            Level.WARNING,
            "The voter with this node's id has another disk. This node does not vote.",
            {**_NODE, "voter": "directory id of the voter", "mine": "directory id of this node"},
            "node {node} has the directory id {mine}, and the quorum has it as a voter with {voter}: it does not vote. "
            "If its disk was exchanged, remove the voter and add this node again; otherwise restore meta.properties",
        ),
        "voters_changed": EventKind(
            Level.DEBUG,
            "Another voter set is in force.",
            {
                **_NODE,
                "offset": "offset of the entry that names the set, -1 for the one that the node started with",
                "voters": "(node id, directory id) of each voter",
            },
        ),
    },
)
