"""The state of each role, which a replica drops when it leaves the role. Times are in ms of the driver's clock."""

from math import inf
from typing import ClassVar, TypeAlias

import attrs

from kraft import lazy_attrs
from kraft.core.log_state import OffsetAndEpoch
from kraft.core.messages import BeginEpochRequest, CurrentLeader, FetchRequest, VoterChangeRequest
from kraft.core.transitions import Role
from kraft.core.voters import ReplicaKey, VoterSet


@lazy_attrs.define
class Unattached:
    """Waits for a leader. A voter starts a pre-vote at `deadline_ms`."""

    role: ClassVar[Role] = Role.UNATTACHED
    deadline_ms: float


@lazy_attrs.define
class Prospective:
    """Collects pre-votes. `leader` is the leader before, which the replica follows again if the pre-vote is lost."""

    role: ClassVar[Role] = Role.PROSPECTIVE
    deadline_ms: float
    leader: CurrentLeader | None
    votes: dict[int, bool] = attrs.field(factory=dict)


@lazy_attrs.define
class Candidate:
    """Collects votes. `lost` is True once a majority refused; the next election starts at `deadline_ms`."""

    role: ClassVar[Role] = Role.CANDIDATE
    deadline_ms: float
    votes: dict[int, bool] = attrs.field(factory=dict)
    unreachable: dict[int, bool] = attrs.field(factory=dict)
    lost: bool = False


@lazy_attrs.define
class SnapshotDownload:
    """The snapshot that a follower is fetching. Bytes below `position` are fetched."""

    snapshot: OffsetAndEpoch
    position: int = 0


@lazy_attrs.define
class Follower:
    """The leader counts as lost at `deadline_ms`. `heard_ms` is the time of its last valid message.

    `has_caught_up` is True once the log has had all entries that the leader named as committed.
    """

    role: ClassVar[Role] = Role.FOLLOWER
    leader_id: int
    leader_address: str
    deadline_ms: float
    heard_ms: float = -inf
    leader_lost: bool = False
    has_caught_up: bool = False
    download: SnapshotDownload | None = None


@lazy_attrs.define
class Progress:
    """The progress of another replica. `end_offset` is -1 before its first valid Fetch in this epoch."""

    key: ReplicaKey
    heard_ms: float
    begin_epoch_ms: float = -inf
    end_offset: int = -1
    # The last time at which it had all entries that the leader had at its previous Fetch.
    caught_up_ms: float = -inf
    # The leader's log end offset at the last Fetch, and the time of that Fetch.
    leader_end_offset: int = -1
    fetched_ms: float = -inf


@lazy_attrs.define
class WaitingFetch:
    """A Fetch that waits for new entries or a new high watermark, until `deadline_ms` at most."""

    token: int
    request: FetchRequest
    deadline_ms: float


@lazy_attrs.define
class VoterChange:
    """The pending voter change. `offset` is that of its entry, or None before the entry is appended.

    `announcement` is the BeginEpoch that is under way to a new voter. It has answered one if `is_reachable` is True.
    """

    token: int
    request: VoterChangeRequest
    deadline_ms: float
    offset: int | None = None
    announcement: BeginEpochRequest | None = None
    is_reachable: bool = False


@lazy_attrs.define
class Leader:
    """`start_offset` is the offset of the leader-change entry. `voters` holds the progress of the other voters."""

    role: ClassVar[Role] = Role.LEADER
    start_offset: int
    started_ms: float
    voters: dict[int, Progress] = attrs.field(factory=dict)
    observers: dict[ReplicaKey, Progress] = attrs.field(factory=dict)
    waiting_fetches: dict[ReplicaKey, WaitingFetch] = attrs.field(factory=dict)
    change: VoterChange | None = None

    def track_voters(self, voters: VoterSet, me: ReplicaKey) -> None:
        """Keep the progress of exactly `voters`. New voters were observers before, removed ones become observers."""
        known = {progress.key: progress for progress in (*self.voters.values(), *self.observers.values())}
        self.voters = {}
        for voter in voters.voters:
            if not voter.key.matches(me):
                same = [progress for key, progress in known.items() if voter.key.matches(key)]
                progress = self.voters[voter.node_id] = same[0] if same else Progress(voter.key, self.started_ms)
                progress.key = voter.key  # its directory id may just have become known
        kept = [progress.key for progress in self.voters.values()]
        self.observers = {key: progress for key, progress in known.items() if key not in kept and key != me}
        self.remove_former_directories()

    def remove_former_directories(self) -> None:
        """Remove the observers of a node that has fetched later with another directory id."""
        heard_ms: dict[int, float] = {}
        for progress in (*self.voters.values(), *self.observers.values()):
            node_id = progress.key.node_id
            heard_ms[node_id] = max(progress.heard_ms, heard_ms.get(node_id, -inf))
        self.observers = {
            key: progress for key, progress in self.observers.items() if progress.heard_ms >= heard_ms[key.node_id]
        }


@lazy_attrs.define
class Resigned:
    """A former leader, which sends EndEpoch to the voters. It stands for election again at `deadline_ms`."""

    role: ClassVar[Role] = Role.RESIGNED
    deadline_ms: float
    preferred_successors: tuple[int, ...]
    acknowledged: dict[int, bool] = attrs.field(factory=dict)


RoleState: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned
