"""The description of a quorum by one of its replicas (KIP-595, DescribeQuorum; KIP-836)."""

import attrs

from kraft import lazy_attrs
from kraft.core import Core, ReplicaKey, VoterSet
from kraft.core.roles import Progress

UNKNOWN_MS = -1
# A voter fetches several times a second, even if there is nothing new. After so long without a fetch it counts as down.
SILENT_MS = 5_000


@lazy_attrs.frozen
class ReplicaState:
    """A replica's progress, as the leader knows it.

    `log_end_offset` is -1 before the replica's first valid Fetch. `last_fetch_ms` is the time of its last Fetch, and
    `last_caught_up_ms` the last time at which it had all entries of the leader. Times are milliseconds since 1970 of
    the leader's wall clock, or -1. `address` is "" for observers.
    """

    key: ReplicaKey
    address: str
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@lazy_attrs.frozen
class QuorumDescription:
    """`leader_id` is None while the replica knows no leader. Only the leader fills in the states."""

    leader_id: int | None
    epoch: int
    high_watermark: int
    voters: VoterSet
    voter_states: tuple[ReplicaState, ...] = ()
    observer_states: tuple[ReplicaState, ...] = ()


def describe(core: Core, me: ReplicaKey, now_ms: float, wall_ms: int) -> QuorumDescription:
    """Describe the quorum at `now_ms` of the core's clock, which is `wall_ms` on the wall clock."""
    description = QuorumDescription(core.current_leader.leader_id, core.epoch, core.high_watermark, core.voters)
    leader = core.leader_state
    if leader is None:
        return description

    def on_wall(time_ms: float) -> int:
        return UNKNOWN_MS if time_ms < 0 else int(wall_ms - (now_ms - time_ms))

    def state(progress: Progress, address: str) -> ReplicaState:
        fetched_ms, caught_up_ms = on_wall(progress.fetched_ms), on_wall(progress.caught_up_ms)
        return ReplicaState(progress.key, address, progress.end_offset, fetched_ms, caught_up_ms)

    voters = []
    for voter in core.voters.voters:
        if voter.key.matches(me):
            voters.append(ReplicaState(me, voter.address, core.end_offset, wall_ms, wall_ms))
        else:
            voters.append(state(leader.voters[voter.node_id], voter.address))
    observers = [state(progress, "") for _, progress in sorted(leader.observers.items())]
    return attrs.evolve(description, voter_states=tuple(voters), observer_states=tuple(observers))
