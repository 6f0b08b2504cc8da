"""The contents of each Raft replica's disk, reconstructed from its trace events, for the Raft invariants."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from jepsen.simulation.trace import Event

# A batch: its base offset, its end offset, and the epoch of the leader that wrote it. In Raft, these identify its
# content.
Entry: TypeAlias = tuple[int, int, int]


@attrs.define
class Replica:
    """A replica. `entries` are in order, by base offset. `start_offset` is the end of the snapshot, `synced` is
    durable.

    `vote` is the highest durable epoch and the vote in it. `directory_id` identifies the disk. `before_damage` is what
    the replica had when a bit flipped on its disk, until its log is as up to date again.
    """

    directory_id: object = ""
    start_offset: int = 0
    end_offset: int = 0
    start_epoch: int | None = 0  # None if unknown
    entries: dict[int, Entry] = attrs.field(factory=dict)
    synced_end_offset: int = 0
    vote: tuple[int, object] = (0, None)
    committed_end_offset: int = 0
    role: str = ""
    epoch: int = 0
    # The offset of the latest voter set, and its voters as pairs of node id and directory id.
    voters_offset: int = -1
    voters: tuple[tuple[int, str], ...] = ()
    before_damage: "Replica | None" = None

    @property
    def end_epoch(self) -> int | None:
        """The epoch of the last entry; None if the log is empty and no event named the epoch of the snapshot."""
        return next(reversed(self.entries.values()))[2] if self.entries else self.start_epoch

    @property
    def end(self) -> tuple[int, int]:
        """The epoch of the last entry, and the end offset: of two logs, the greater one is more up to date."""
        return self.end_epoch or 0, self.end_offset

    def append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.entries[entry[0]] = entry
            self.end_offset = entry[1]
        self._catch_up()

    def damage(self) -> None:
        """A bit flips on the disk: what is durable is unknown until the replica reports what it has recovered."""
        if self.before_damage is None:
            self.before_damage = attrs.evolve(self, entries=dict(self.entries))
        self.synced_end_offset = 0

    def truncate(self, end_offset: int) -> None:
        while self.entries and next(reversed(self.entries)) >= end_offset:
            self.entries.popitem()
        self.end_offset = min(self.end_offset, end_offset)
        self.synced_end_offset = min(self.synced_end_offset, end_offset)

    def restart(self, event: Event) -> None:
        self.start_offset, self.entries = integer(event, "start_offset"), {}
        self.end_offset, self.start_epoch = self.start_offset, None if self.start_offset else 0
        self.append(entries_of(event))
        self.synced_end_offset = self.end_offset
        self.committed_end_offset, self.role = 0, ""

    def start_from_snapshot(self, end_offset: int, epoch: int) -> None:
        self.start_offset = self.end_offset = self.synced_end_offset = end_offset
        self.start_epoch, self.entries = epoch, {}
        self._catch_up()

    def holds(self, entry: Entry) -> bool:
        """True if the entry is in the log or in the snapshot before it."""
        return entry[1] <= self.start_offset or self.entries.get(entry[0]) == entry

    def _catch_up(self) -> None:
        if self.before_damage is not None and self.end >= self.before_damage.end:
            self.before_damage = None


class Replicas:
    """Follows the trace. In the watch it precedes the invariants, except those that need the state before an event.

    `committed` holds all entries that any replica has committed, by base offset. `committed_in` has, for each epoch,
    the last entry that was first committed in it. `lost` are replicas whose disk is lost.
    """

    kinds: Sequence[str] = (
        *("log_recovered", "log_written", "log_truncated", "log_synced", "snapshot_taken", "snapshot_installed"),
        *("vote_synced", "role_changed", "voters_changed", "committed", "disk_lost", "disk_damaged"),
    )

    def __init__(self) -> None:
        self.by_host: dict[str, Replica] = {}
        self.hosts: dict[int, str] = {}  # by node id
        self.committed: dict[int, Entry] = {}
        self.committed_end_offset = 0
        self.committed_in: dict[int, Entry] = {}
        self.lost: dict[tuple[int, object], Replica] = {}

    def replica(self, event: Event) -> Replica:
        return self.by_host.setdefault(event.host, Replica())

    def of_voter(self, voter: tuple[int, str]) -> Replica | None:
        """The replica of a voter in a voter set. If its disk is lost, the last state of that disk."""
        node_id, directory_id = voter
        host = self.hosts.get(node_id)
        current = self.by_host.get(host) if host is not None else None
        return self.lost.get(voter, current) if directory_id else current

    def observe(self, event: Event) -> str | None:
        replica = self.replica(event)
        match event.kind:
            case "log_recovered":
                self.hosts[integer(event, "node")] = event.host
                replica.restart(event)
            case "log_written":
                replica.append(entries_of(event))
            case "log_truncated":
                replica.truncate(integer(event, "end_offset"))
            case "log_synced":
                replica.synced_end_offset = max(replica.synced_end_offset, integer(event, "end_offset"))
            case "snapshot_taken":
                replica.synced_end_offset = max(replica.synced_end_offset, integer(event, "end_offset"))
            case "snapshot_installed":
                replica.start_from_snapshot(integer(event, "end_offset"), integer(event, "epoch"))
            case "vote_synced":
                replica.vote = (integer(event, "epoch"), event.fields["voted_for"])
            case "role_changed":
                replica.role, replica.epoch = str(event.fields["role"]), integer(event, "epoch")
            case "voters_changed":
                replica.voters_offset, replica.voters = integer(event, "offset"), voters_of(event)
            case "committed":
                self._commit(replica, integer(event, "end_offset"))
            case "disk_damaged":
                replica.damage()
            case "disk_lost":
                node_id = integer(event, "node")
                self.lost[node_id, event.fields["directory_id"]] = self.by_host.pop(event.host)
        return None

    def _commit(self, replica: Replica, end_offset: int) -> None:
        if end_offset > self.committed_end_offset:
            news = entries_between(replica, self.committed_end_offset, end_offset)
            self.committed.update((entry[0], entry) for entry in news)
            self.committed_end_offset = end_offset
            if news:
                self.committed_in[replica.epoch] = news[-1]
        replica.committed_end_offset = end_offset


def entries_between(replica: Replica, start: int, end: int) -> list[Entry]:
    """The entries from `start` to below `end`, in order. The search starts at the end, because most callers want new
    entries.
    """
    found = []
    for entry in reversed(replica.entries.values()):
        if entry[0] < start:
            break
        if entry[0] < end:
            found.append(entry)
    return found[::-1]


def entries_of(event: Event) -> Sequence[Entry]:
    entries: Any = event.fields["entries"]
    assert isinstance(entries, tuple), f"entries of {event}"
    return entries


def voters_of(event: Event) -> tuple[tuple[int, str], ...]:
    voters: Any = event.fields["voters"]
    assert isinstance(voters, tuple), f"voters of {event}"
    return voters


def integer(event: Event, name: str) -> int:
    value = event.fields[name]
    assert isinstance(value, int), f"{name} of {event} is an offset or an epoch"
    return value


def committed_before(replicas: Replicas, epoch: int) -> Entry | None:
    """The last entry that was committed in an earlier epoch."""
    earlier: Mapping[int, Entry] = {each: entry for each, entry in replicas.committed_in.items() if each < epoch}
    return max(earlier.values(), default=None)
