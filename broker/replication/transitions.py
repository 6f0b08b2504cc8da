"""The roles of a partition's replica on one broker, and the transitions between them.

The metadata says which replica leads in each leader epoch, and a replica has one role for the whole epoch. It is LEADER
if the metadata names this broker, and FOLLOWER if it names another one. It is LEADERLESS while no replica can be
elected, and before the first metadata of a new replica. It is OFFLINE without a log: the log directory has failed, or
the replica was removed from this broker. An offline replica never takes another role. After the disk is repaired and
the broker has restarted, a new object takes its place.

A leader appends, learns from fetches what its followers have, and moves the high watermark. It proposes changes of the
ISR, and the controller decides. A follower appends what its leader sends, truncates what the leader does not have, and
takes over the high watermark. Only a follower's high watermark moves back, when it truncates its log.

Each leader epoch begins with a new role object, even under the same leader. Progress of an earlier epoch does not
count: another leader in between may have made the followers truncate their logs.

Past failures:

- A follower that came back served consumers up to the high watermark of its last leader. An unclean election had
  removed these records, and consumers read them under the epoch in which other records have their offsets. A follower
  now refuses consumers until its leader has found no divergence in its log (`agrees_with_leader`).
- A new leader answered with its high watermark before it knew how far its predecessor had committed. Consumers saw the
  end of the partition move back. It now refuses to list offsets until it has committed up to the start of its epoch.
- A follower that was away came back, and still counted as caught up from the time before. The high watermark waited for
  it while it caught up. A replica that leaves the ISR now begins again.
- The producer states were not told of every move of the high watermark, and a transaction that had ended held back
  the last stable offset for ever. `Partition.move_high_watermark` is now the only place that moves it.

So never keep a role's state past its leader epoch, never apply a response to another role than the one that asked, and
never commit a record that a member of the maximal ISR may lack.
"""

from enum import Enum

from kraft.core.transitions import IllegalTransition


class Role(Enum):
    LEADERLESS = "leaderless"
    FOLLOWER = "follower"
    LEADER = "leader"
    OFFLINE = "offline"


class Cause(Enum):
    ELECTED = "it is elected"
    OTHER_ELECTED = "another replica is elected"
    NONE_ELECTED = "no replica can be elected"
    CLOSED = "its log directory fails, or it is removed"


TRANSITIONS: dict[tuple[Role, Cause], Role] = {
    (Role.LEADERLESS, Cause.ELECTED): Role.LEADER,
    (Role.LEADERLESS, Cause.OTHER_ELECTED): Role.FOLLOWER,
    (Role.LEADERLESS, Cause.NONE_ELECTED): Role.LEADERLESS,
    (Role.LEADERLESS, Cause.CLOSED): Role.OFFLINE,
    (Role.FOLLOWER, Cause.ELECTED): Role.LEADER,
    (Role.FOLLOWER, Cause.OTHER_ELECTED): Role.FOLLOWER,
    (Role.FOLLOWER, Cause.NONE_ELECTED): Role.LEADERLESS,
    (Role.FOLLOWER, Cause.CLOSED): Role.OFFLINE,
    (Role.LEADER, Cause.ELECTED): Role.LEADER,
    (Role.LEADER, Cause.OTHER_ELECTED): Role.FOLLOWER,
    (Role.LEADER, Cause.NONE_ELECTED): Role.LEADERLESS,
    (Role.LEADER, Cause.CLOSED): Role.OFFLINE,
    (Role.OFFLINE, Cause.CLOSED): Role.OFFLINE,
}


def next_role(role: Role, cause: Cause) -> Role:
    """The role after `cause` in `role`. Raises IllegalTransition."""
    try:
        return TRANSITIONS[role, cause]
    except KeyError:
        raise IllegalTransition(f"{role.name} cannot be left because: {cause.value}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram, which the documentation includes."""
    lines = ["stateDiagram-v2", *(f"    [*] --> {role.value}" for role in (Role.LEADERLESS, Role.OFFLINE))]
    lines += [f"    {old.value} --> {new.value}: {cause.value}" for (old, cause), new in TRANSITIONS.items()]
    return "\n".join(lines) + "\n"
