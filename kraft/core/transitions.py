"""The roles of a replica, and the transitions between them.

A replica has one role in one epoch. Usually one voter is LEADER and all other replicas are FOLLOWER. A follower that
has lost its leader becomes PROSPECTIVE and requests pre-votes (KIP-996). Only with pre-votes of a majority does it
enter a new epoch, as CANDIDATE. A replica that is partitioned from the others therefore never raises the epoch, and a
wrong suspicion about the leader is harmless.

RESIGNED is a leader that stopped leading and knows no successor: it lost its majority, is leaving, or was removed.
UNATTACHED knows the epoch and no leader; a replica that voted for another one in this epoch waits in this role.
Observers, which are replicas outside the voter set, are UNATTACHED or FOLLOWER only.

Raft's paper, figure 4, has three roles; the others are from KIP-595 and KIP-996.

Past failures:

- Two prospective replicas with equal logs gave each other their pre-votes and then split the votes, again and again
  where messages were slow. Only the one with the lower id now gets the pre-vote.
- A node came back with an empty disk, passed for the voter whose disk it had replaced, and won an election with its own
  vote. A voter is now named by node id and directory id, and only a replica with that disk stands for election.
- A flipped bit in the last entry of a log looked like a torn write. The entry was cut off, and the replica voted, and
  could lead, without metadata that it had acknowledged. The end of what is acknowledged is now kept apart from the log,
  and a replica that has lost entries votes only for candidates that have them.
- A request with the highest possible epoch was stored by every voter, and no epoch was left for the next election.
  Epochs are now believed only if an honest quorum can have reached them. All replicas judge that by the wall clock:
  with a budget for each replica they disagreed, and some refused the epoch of honest replicas.
- A candidate that was cut off and then removed as a voter had a higher epoch than the leader, and found no leader until
  elections had reached its epoch. The Fetch of a former voter now raises the leader's epoch.

So never vote twice in an epoch, never send a vote or count an entry before it is durable, never commit entries of
earlier epochs by counting replicas (Raft's paper, 5.4.2), and never truncate below the high watermark.
"""

from enum import Enum


class Role(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


class Cause(Enum):
    HIGHER_EPOCH = "learns of a higher epoch"
    LEADER_FOUND = "learns who leads"
    ELECTION_TIMEOUT = "election timeout"
    FETCH_TIMEOUT = "fetch timeout"
    LEADER_LOST = "its connection was reset, or it ended the epoch"
    OUT_OF_TOUCH = "not a voter, and no leader is reachable"
    PRE_VOTE_WON = "majority would vote for it"
    PRE_VOTE_LOST = "no majority would vote for it"
    VOTES_WON = "majority voted for it"
    HANDED_OVER = "the leader names it as successor"
    MAJORITY_LOST = "lost its majority"
    RESIGNATION = "leaves, or was removed"


class IllegalTransition(AssertionError):
    """The table has no transition from the role for the cause. Nothing was changed."""


TRANSITIONS: dict[tuple[Role, Cause], Role] = {
    (Role.UNATTACHED, Cause.HIGHER_EPOCH): Role.UNATTACHED,
    (Role.UNATTACHED, Cause.LEADER_FOUND): Role.FOLLOWER,
    (Role.UNATTACHED, Cause.ELECTION_TIMEOUT): Role.PROSPECTIVE,
    (Role.PROSPECTIVE, Cause.HIGHER_EPOCH): Role.UNATTACHED,
    (Role.PROSPECTIVE, Cause.LEADER_FOUND): Role.FOLLOWER,
    (Role.PROSPECTIVE, Cause.PRE_VOTE_WON): Role.CANDIDATE,
    (Role.PROSPECTIVE, Cause.PRE_VOTE_LOST): Role.UNATTACHED,
    (Role.CANDIDATE, Cause.HIGHER_EPOCH): Role.UNATTACHED,
    (Role.CANDIDATE, Cause.LEADER_FOUND): Role.FOLLOWER,
    (Role.CANDIDATE, Cause.ELECTION_TIMEOUT): Role.PROSPECTIVE,
    (Role.CANDIDATE, Cause.VOTES_WON): Role.LEADER,
    (Role.CANDIDATE, Cause.RESIGNATION): Role.UNATTACHED,
    (Role.LEADER, Cause.HIGHER_EPOCH): Role.UNATTACHED,
    (Role.LEADER, Cause.MAJORITY_LOST): Role.RESIGNED,
    (Role.LEADER, Cause.RESIGNATION): Role.RESIGNED,
    (Role.FOLLOWER, Cause.HIGHER_EPOCH): Role.UNATTACHED,
    (Role.FOLLOWER, Cause.FETCH_TIMEOUT): Role.PROSPECTIVE,
    (Role.FOLLOWER, Cause.LEADER_LOST): Role.PROSPECTIVE,
    (Role.FOLLOWER, Cause.HANDED_OVER): Role.CANDIDATE,
    (Role.FOLLOWER, Cause.OUT_OF_TOUCH): Role.UNATTACHED,
    (Role.RESIGNED, Cause.HIGHER_EPOCH): Role.UNATTACHED,
    (Role.RESIGNED, Cause.ELECTION_TIMEOUT): Role.PROSPECTIVE,
    (Role.RESIGNED, Cause.OUT_OF_TOUCH): Role.UNATTACHED,
}


def next_role(role: Role, cause: Cause) -> Role:
    """The role after `cause` in `role`. Raises IllegalTransition."""
    try:
        return TRANSITIONS[role, cause]
    except KeyError:
        raise IllegalTransition(f"{role.name} cannot be left because: {cause.value}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram, which the documentation includes."""
    lines = ["stateDiagram-v2", f"    [*] --> {Role.UNATTACHED.value}"]
    lines += [f"    {old.value} --> {new.value}: {cause.value}" for (old, cause), new in TRANSITIONS.items()]
    return "\n".join(lines) + "\n"
