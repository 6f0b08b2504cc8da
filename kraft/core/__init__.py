"""KRaft's pull-based Raft as a pure state machine: `step(event, now_ms) -> effects`. Read `kraft.core.core` first.

`transitions` is the table of roles, and `quorum` computes majorities. `elections`, `leading`, `following` and
`reconfiguration` hold the rules of the protocol, and all of them work on the state in `replica`.
"""

from kraft.core.config import QuorumConfig
from kraft.core.core import Core
from kraft.core.effects import Effect, ElectionState
from kraft.core.events import Event
from kraft.core.log_state import LogState, OffsetAndEpoch, latest_end
from kraft.core.transitions import Role
from kraft.core.voters import ReplicaKey, Voter, VoterSet, VoterSetHistory

__all__ = [
    "Core",
    "Effect",
    "ElectionState",
    "Event",
    "LogState",
    "OffsetAndEpoch",
    "QuorumConfig",
    "ReplicaKey",
    "Role",
    "Voter",
    "VoterSet",
    "VoterSetHistory",
    "latest_end",
]
