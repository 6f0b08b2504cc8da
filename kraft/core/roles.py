"""What a replica keeps while it is in a role, and drops when it leaves it. Times are in ms of the driver's clock."""

from math import inf
from typing import ClassVar, TypeAlias

import attrs

from kraft.core.log_state import OffsetAndEpoch
from kraft.core.messages import CurrentLeader, FetchRequest, VoterChangeRequest
from kraft.core.transitions import Role
from kraft.core.voters import ReplicaKey, VoterSet


@attrs.define
class Unattached:
    """Waits for a leader to make itself known, and stands for election itself after `deadline_ms`."""

    role: ClassVar[Role] = Role.UNATTACHED
    deadline_ms: float


@attrs.define
class Prospective:
    """Asks whether it would be elected. `leader` is whom it believed to lead, and goes back to if not."""

    role: ClassVar[Role] = Role.PROSPECTIVE
    deadline_ms: float
    leader: CurrentLeader | None
    votes: dict[int, bool] = attrs.field(factory=dict)


@attrs.define
class Candidate:
    """`lost`: a majority refused, and `deadline_ms` is when to try again."""

    role: ClassVar[Role] = Role.CANDIDATE
    deadline_ms: float
    votes: dict[int, bool] = attrs.field(factory=dict)
    unreachable: dict[int, bool] = attrs.field(factory=dict)
    lost: bool = False


@attrs.define
class SnapshotDownload:
    """The snapshot that a follower is fetching. Bytes below `position` are fetched."""

    snapshot: OffsetAndEpoch
    position: int = 0


@attrs.define
class Follower:
    """`deadline_ms` is when the leader counts as lost; `heard_ms` when it last gave a sign of life as the leader."""

    role: ClassVar[Role] = Role.FOLLOWER
    leader_id: int
    leader_address: str
    deadline_ms: float
    heard_ms: float = -inf
    leader_lost: bool = False
    download: SnapshotDownload | None = None


@attrs.define
class Progress:
    """What the leader knows of another replica. `end_offset` is -1 before its first valid Fetch."""

    key: ReplicaKey
    heard_ms: float
    begin_epoch_ms: float = -inf
    end_offset: int = -1
    # When it last had everything that the leader had at its Fetch before.
    caught_up_ms: float = -inf
    # The leader's end at the last Fetch, and its time.
    leader_end_offset: int = -1
    fetched_ms: float = -inf


@attrs.define
class Parked:
    """A Fetch without news, held until there is some or `deadline_ms` comes."""

    token: int
    request: FetchRequest
    deadline_ms: float


@attrs.define
class VoterChange:
    """The one change of voters under way. `offset` is that of its entry, None while the voter is catching up."""

    token: int
    request: VoterChangeRequest
    deadline_ms: float
    offset: int | None = None


@attrs.define
class Leader:
    """`start_offset` is that of its leader-change entry. Progress is kept of the voters, itself excepted."""

    role: ClassVar[Role] = Role.LEADER
    start_offset: int
    started_ms: float
    voters: dict[int, Progress] = attrs.field(factory=dict)
    observers: dict[ReplicaKey, Progress] = attrs.field(factory=dict)
    parked: dict[ReplicaKey, Parked] = attrs.field(factory=dict)
    change: VoterChange | None = None

    def follow(self, voters: VoterSet, me: ReplicaKey) -> None:
        """Keep progress of exactly `voters`; who comes and goes is known as an observer before and after."""
        known = {progress.key: progress for progress in (*self.voters.values(), *self.observers.values())}
        self.voters = {}
        for voter in voters.voters:
            if not voter.key.matches(me):
                same = [progress for key, progress in known.items() if voter.key.matches(key)]
                progress = self.voters[voter.node_id] = same[0] if same else Progress(voter.key, self.started_ms)
                progress.key = voter.key  # its directory id may just have become known
        kept = [progress.key for progress in self.voters.values()]
        self.observers = {key: progress for key, progress in known.items() if key not in kept and key != me}
        self.forget_former_disks()

    def forget_former_disks(self) -> None:
        """Of a node that came back with another disk, what the former one had fetched is of no interest."""
        heard_ms: dict[int, float] = {}
        for progress in (*self.voters.values(), *self.observers.values()):
            node_id = progress.key.node_id
            heard_ms[node_id] = max(progress.heard_ms, heard_ms.get(node_id, -inf))
        self.observers = {
            key: progress for key, progress in self.observers.items() if progress.heard_ms >= heard_ms[key.node_id]
        }


@attrs.define
class Resigned:
    """Tells the voters, and lets them elect somebody before it stands again itself at `deadline_ms`."""

    role: ClassVar[Role] = Role.RESIGNED
    deadline_ms: float
    preferred_successors: tuple[int, ...]
    acknowledged: dict[int, bool] = attrs.field(factory=dict)


RoleState: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned
