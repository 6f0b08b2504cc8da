"""Raft's properties (figure 3 of its paper), and the rules that ensure them. Section numbers are those of the paper."""

from collections.abc import Collection, Sequence

from jepsen.simulation.invariants.replicas import (
    Entry,
    Replica,
    Replicas,
    committed_before,
    entries_of,
    integer,
    voters_of,
)
from jepsen.simulation.invariants.watch import Invariant
from jepsen.simulation.trace import Event


class OneLeaderPerEpoch:
    """Election safety (5.2): no epoch has two leaders, or two incarnations of one leader."""

    kinds: Sequence[str] = ("role_changed",)

    def __init__(self) -> None:
        self._leaders: dict[int, str] = {}

    def observe(self, event: Event) -> str | None:
        if event.fields["role"] != "leader":
            return None
        epoch = integer(event, "epoch")
        if epoch in self._leaders:
            return f"epoch {epoch} has the leaders {self._leaders[epoch]} and {event.host}"
        self._leaders[epoch] = event.host
        return None


class EpochsNeverGoBack:
    """A replica never enters an epoch below one in which it has been, or below the one on its disk (5.1)."""

    kinds: Sequence[str] = ("log_recovered", "role_changed", "vote_synced")

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        replica, epoch = self._replicas.replica(event), integer(event, "epoch")
        durable = replica.vote[0]
        before = durable if event.kind == "log_recovered" else max(durable, replica.epoch if replica.role else 0)
        return f"{event.host} is in epoch {epoch} after {before}" if epoch < before else None


class OneVotePerEpoch:
    """A replica votes for one candidate in an epoch, in all its incarnations together (5.2)."""

    kinds: Sequence[str] = ("vote_synced",)

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        epoch, voted_for = self._replicas.replica(event).vote
        now = event.fields["voted_for"]
        if epoch == event.fields["epoch"] and voted_for not in (None, now):
            return f"{event.host} voted in epoch {epoch} for {voted_for}, and now for {now}"
        return None


class CommittedEntriesStay:
    """A committed entry that a replica has made durable is still there after its recovery (5.4.3)."""

    kinds: Sequence[str] = ("log_recovered",)

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        kept = self._kept(self._replicas.replica(event))
        end_offset = integer(event, "end_offset")
        if end_offset < kept:
            return f"{event.host} recovered up to {end_offset}, and up to {kept} entries are committed that it had"
        return None

    def _kept(self, replica: Replica) -> int:
        """The end of the committed entries that the replica had. Uncommitted entries of a former leader do
        not count.
        """
        for entry in reversed(replica.entries.values()):
            if entry[1] <= replica.synced_end_offset and self._replicas.committed.get(entry[0]) == entry:
                return entry[1]
        return min(replica.start_offset, replica.synced_end_offset)


class LogsStartAtSnapshots:
    """A log begins at or before the end of a durable snapshot of committed entries."""

    kinds: Sequence[str] = ("log_recovered", "snapshot_taken", "snapshot_installed")

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        at = integer(event, "start_offset" if event.kind == "log_recovered" else "end_offset")
        committed = self._replicas.committed_end_offset
        return f"{event.host} has a snapshot at {at}, committed is up to {committed}" if at > committed else None


class LogsMatch:
    """Log matching (5.3): entries with the same offset and epoch are equal, and so are all entries before them."""

    kinds: Sequence[str] = ("log_recovered", "log_written")

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._before: dict[tuple[int, int], tuple[int, int | None]] = {}

    def observe(self, event: Event) -> str | None:
        """Must be called before `Replicas` observes the event."""
        replica, entries = self._replicas.replica(event), entries_of(event)
        if event.kind == "log_recovered":
            end, epoch = integer(event, "start_offset"), None if event.fields["start_offset"] else 0
        else:
            end, epoch = replica.end_offset, replica.end_epoch
        for entry in entries:
            base_offset, end_offset, entry_epoch = entry
            if base_offset != end:
                return f"{event.host} wrote {entry} after offset {end}"
            first, before = self._before.setdefault((base_offset, entry_epoch), (end_offset, epoch))
            if first != end_offset or (None not in (before, epoch) and before != epoch):
                other = f"another log's batch at {base_offset} ends at {first} and follows epoch {before}"
                return f"{event.host} wrote {entry} after epoch {epoch}; {other}"
            end, epoch = end_offset, entry_epoch
        return None


class LeadersAreComplete:
    """Leader completeness (5.4): a leader has all entries that were committed in earlier epochs."""

    kinds: Sequence[str] = ("role_changed",)

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        if event.fields["role"] != "leader":
            return None
        # Logs match, so a replica with the last entry has all of them.
        last = committed_before(self._replicas, integer(event, "epoch"))
        if last is not None and not self._replicas.replica(event).holds(last):
            return f"{event.host} leads in epoch {event.fields['epoch']} without the committed entry {last}"
        return None


class CommitsNeverChange:
    """State machine safety (5.4.3): all replicas commit the same entry at an offset, and never revoke a commit."""

    kinds: Sequence[str] = ("committed",)

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        """Must be called before `Replicas` observes the event."""
        replica, end_offset = self._replicas.replica(event), integer(event, "end_offset")
        if end_offset < replica.committed_end_offset:
            return f"{event.host} takes its commit back to {end_offset}"
        if end_offset > replica.end_offset:
            return f"{event.host} commits up to {end_offset}, its log ends at {replica.end_offset}"
        for entry in _latest(replica, end_offset):
            known = self._replicas.committed.get(entry[0], entry)
            if known != entry:
                return f"{event.host} has {entry} committed, another node {known}"
        return None


class CommitsAreHeldByMajorities:
    """A committed entry is durable at a majority of the voters that the committing leader knows (5.3).

    A voter whose disk was lost later counts with the entries that it held, because it no longer votes (KIP-853). So
    does one whose disk was damaged, which votes only for candidates that have what it acknowledged.
    """

    kinds: Sequence[str] = ("committed",)

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        """Must be called before `Replicas` observes the event."""
        replica, end_offset = self._replicas.replica(event), integer(event, "end_offset")
        if end_offset <= self._replicas.committed_end_offset or replica.role != "leader":
            return None
        (last,) = _latest(replica, end_offset) or [(end_offset, end_offset, 0)]
        holders = [voter for voter in replica.voters if _has_durably(self._replicas.of_voter(voter), last)]
        if len(holders) <= len(replica.voters) // 2:
            return f"{event.host} commits {last}, which {len(holders)} of {len(replica.voters)} voters have"
        return None


class LeadersCommitTheirOwn:
    """A leader commits entries of earlier epochs only together with an entry of its own epoch (5.4.2)."""

    kinds: Sequence[str] = ("committed",)

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        replica, end_offset = self._replicas.replica(event), integer(event, "end_offset")
        if replica.role != "leader":
            return None
        for entry in _latest(replica, end_offset):
            if entry[2] != replica.epoch:
                return f"{event.host} commits {entry}, and leads in epoch {replica.epoch}"
        return None


class CommittedEntriesAreNotTruncated:
    """No leader, and no lying peer, makes a follower truncate entries that the follower knows as committed (5.4)."""

    kinds: Sequence[str] = ("unsafe_truncation",)

    def observe(self, event: Event) -> str | None:
        end_offset, committed, source = (event.fields[name] for name in ("end_offset", "committed", "source"))
        return f"node {source} tells {event.host} to truncate to {end_offset}, below its commit at {committed}"


class OneVoterAtATime:
    """Two successive voter sets differ by one voter, and the second one is appended after the first is committed
    (KIP-853).
    """

    kinds: Sequence[str] = ("voters_changed",)

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def observe(self, event: Event) -> str | None:
        """Must be called before `Replicas` observes the event."""
        replica, voters = self._replicas.replica(event), voters_of(event)
        if replica.role != "leader" or integer(event, "offset") <= replica.voters_offset:
            return None
        before, now = ([node_id for node_id, _ in each] for each in (replica.voters, voters))
        changed = [each for each in (*before, *now) if (each in before) is not (each in now)]
        if len(changed) > 1:
            return f"{event.host} changes the voters {replica.voters} to {voters} at once"
        if replica.voters_offset >= replica.committed_end_offset:
            return f"{event.host} changes voters again, and the change at {replica.voters_offset} is not committed"
        return None


class OnlyLostVotersAreRemoved:
    """A replica that adds itself to the voters removes only its former disk (KIP-1186), and an administrator what it
    asked for: `asked` has the ids of the nodes and directories.
    """

    kinds: Sequence[str] = ("voters_changed",)

    def __init__(self, replicas: Replicas, asked: Collection[tuple[int, str]]) -> None:
        self._replicas = replicas
        self._asked = asked

    def observe(self, event: Event) -> str | None:
        """Must be called before `Replicas` observes the event."""
        replica, voters = self._replicas.replica(event), voters_of(event)
        if replica.role != "leader" or integer(event, "offset") <= replica.voters_offset:
            return None
        removed = [voter for voter in replica.voters if voter not in voters]
        wrong = [voter for voter in removed if voter not in self._asked and voter not in self._replicas.lost]
        return f"{event.host} removes {wrong}, with intact disks" if wrong else None


class NoElectionWithoutFaults:
    """Without faults, a leader keeps leading (KIP-996, and Raft's dissertation, section 9.6).

    A replica that had no contact with the leader when the faults ended may still find it.
    """

    kinds: Sequence[str] = ("peace", "role_changed")

    def __init__(self) -> None:
        self._is_peace = False
        self._out_of_touch: dict[str, bool] = {}

    def observe(self, event: Event) -> str | None:
        if event.kind == "peace":
            self._is_peace = True
            return None
        role = event.fields["role"]
        finds_leader = self._out_of_touch.get(event.host, True) and role in ("unattached", "follower")
        self._out_of_touch[event.host] = role in ("unattached", "prospective")
        if self._is_peace and not finds_leader:
            return f"{event.host} becomes {role} in epoch {event.fields['epoch']}, without a cause"
        return None


class HonestEpochsArePlausible:
    """A replica never refuses an epoch as implausible in which another replica has been; see
    `kraft.core.plausible_epochs`.

    Epochs that a lying peer sends in the name of a replica count only if that replica has been in them. A source that
    is not a replica's id is an address at which an observer asks for the leader: it may be any replica's.
    """

    kinds: Sequence[str] = ("log_recovered", "role_changed", "vote_synced", "implausible_epoch")

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._highest: dict[str, int] = {}

    def observe(self, event: Event) -> str | None:
        epoch = integer(event, "epoch")
        if event.kind != "implausible_epoch":
            self._highest[event.host] = max(epoch, self._highest.get(event.host, 0))
            return None
        told, source = integer(event, "told"), integer(event, "source")
        host = self._replicas.hosts.get(source)
        reached = max(self._highest.values()) if host is None else self._highest.get(host, 0)
        if told > reached:
            return None
        return f"{event.host} is in epoch {epoch} and ignores {told}, in which {host or 'another'} has been"


class EpochsBeginWithCandidates:
    """The first replica in an epoch is a candidate of this epoch (5.2), so an unknown peer cannot raise the epoch.

    Not checked once a peer has lied under a node's id, because replicas enter the epochs that such a peer sends.
    """

    kinds: Sequence[str] = ("log_recovered", "vote_synced", "lies")

    def __init__(self) -> None:
        self._highest = 0
        self._has_liar = False

    def observe(self, event: Event) -> str | None:
        if event.kind == "lies":
            self._has_liar = self._has_liar or not event.fields["is_stranger"]
            return None
        epoch, before = integer(event, "epoch"), self._highest
        self._highest = max(epoch, before)
        is_candidate = event.kind == "log_recovered" or event.fields["voted_for"] == event.fields["node"]
        if epoch <= before or is_candidate or self._has_liar:
            return None
        return f"{event.host} is the first in epoch {epoch} after {before}, and does not stand for election in it"


def raft_invariants(replicas: Replicas, asked_removals: Collection[tuple[int, str]] | None = None) -> list[Invariant]:
    """All invariants of one simulation, whose replicas are `replicas`.

    `asked_removals` are the voters that an administrator has asked to remove, or None if their removal is not checked.
    """
    of_removals = [] if asked_removals is None else [OnlyLostVotersAreRemoved(replicas, asked_removals)]
    return [
        # These compare an event with the state before it.
        EpochsNeverGoBack(replicas),
        OneVotePerEpoch(replicas),
        CommittedEntriesStay(replicas),
        LogsMatch(replicas),
        CommitsNeverChange(replicas),
        CommitsAreHeldByMajorities(replicas),
        OneVoterAtATime(replicas),
        *of_removals,
        replicas,
        # These compare an event with the state after it.
        OneLeaderPerEpoch(),
        NoElectionWithoutFaults(),
        LogsStartAtSnapshots(replicas),
        LeadersAreComplete(replicas),
        LeadersCommitTheirOwn(replicas),
        CommittedEntriesAreNotTruncated(),
        HonestEpochsArePlausible(replicas),
        EpochsBeginWithCandidates(),
    ]


def _latest(replica: Replica, end_offset: int) -> list[Entry]:
    """The entry that ends at an offset, if it is still in the log."""
    for entry in reversed(replica.entries.values()):
        if entry[1] <= end_offset:
            return [entry] if entry[1] == end_offset else []
    return []


def _has_durably(replica: Replica | None, entry: Entry) -> bool:
    found = () if replica is None else (replica, *([] if replica.before_damage is None else [replica.before_damage]))
    return any(each.synced_end_offset >= entry[1] and each.holds(entry) for each in found)
