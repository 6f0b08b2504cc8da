"""The next step of a member towards its target assignment (KIP-848, "Member reconciliation").

Each heartbeat moves a member one step. It revokes partitions before its epoch increases, and gets partitions of other
members when these have revoked them.

    STABLE -> UNREVOKED_PARTITIONS     partitions have to be revoked first; the epoch stays
           -> UNRELEASED_PARTITIONS    the target's epoch, without the partitions that others still own
           -> STABLE                   the target's epoch, with all of its partitions

So a partition has at most one owner at any time: it is assigned when no member owns it. A member owns a partition until
it reports that it has revoked it, or until it is removed: after its session timeout without a heartbeat, or after its
rebalance timeout if it does not revoke.

A target can change while the member revokes partitions. The member gets to the new target only after it has revoked
them. It may then have further partitions to revoke, and its epoch stays again. Partitions of topics that it is no
longer subscribed to do not wait for that: it is asked for these in the response to the new subscription.

Past failures:

- A member with further partitions to revoke went up by one epoch in between. Kafka keeps its epoch, and starts its
  rebalance timeout again with each further revocation.
- A commit crossed the heartbeat that raised the member's epoch, and was refused although the member owned the partition
  all the time. Commits now count from the epoch at which the partition was assigned (`assignment_epochs`).
- A group became a classic one, and the partitions that a member had yet to revoke belonged to no member any more.
  They were assigned to another member as well.
- Timers of a member outlived its group, and could have removed a member of the next group with that name.

So never assign a partition that any member still owns or has yet to revoke, never raise an epoch while partitions are
to be revoked, and never take a heartbeat without partitions for a report that they are revoked (`owned` is None then).
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

import attrs

from broker.coordinator.group.consumer.assignment_epochs import after_step
from broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from broker.coordinator.group.partition_sets import (
    NO_PARTITIONS,
    PartitionSets,
    difference,
    intersection,
    of_topic,
    union,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

# Returns the member id of the partition's owner, if there is one.
OwnerOf: TypeAlias = Callable[[bytes, int], str | None]


@lazy_attrs.frozen
class Target:
    """The member's target assignment of group epoch `epoch`."""

    epoch: int
    partitions: PartitionSets


def reconcile(
    member: ConsumerMember,
    target: Target,
    owner_of: OwnerOf,
    owned: PartitionSets | None,
    new_topic_ids: Collection[bytes] | None = None,
) -> ConsumerMember:
    """Returns the member after the next step; the same member if no step is needed or possible.

    `owned` are the partitions that the member reports; None if it does not report any. `new_topic_ids` are the topics
    of a new subscription; None if the subscription is the same as before. Raises KafkaError.
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == target.epoch:
                return member
            return _next(member, member.member_epoch, target, owner_of, owned)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_has(member.pending_revocation, owned):
                return member if new_topic_ids is None else _without_other_topics(member, new_topic_ids)
            return _next(member, member.member_epoch, target, owner_of, owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.member_epoch, target, owner_of, owned)
        case _:
            # A later version wrote this state. Only a member that owns nothing can start again.
            if owned is None or owned:
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "The member is in an unknown state")
            return _next(member, target.epoch, target, owner_of, owned)


def _next(
    member: ConsumerMember, epoch: int, target: Target, owner_of: OwnerOf, owned: PartitionSets | None
) -> ConsumerMember:
    keeps = intersection(member.assigned, target.partitions)
    to_revoke = difference(member.assigned, keeps)
    if _still_has(to_revoke, owned):
        return _changed(member, epoch, MemberState.UNREVOKED_PARTITIONS, keeps, pending_revocation=to_revoke)
    wanted = difference(target.partitions, keeps)
    free = {
        topic_id: frozenset(index for index in partitions if owner_of(topic_id, index) in (None, member.member_id))
        for topic_id, partitions in wanted.items()
    }
    free = {topic_id: partitions for topic_id, partitions in free.items() if partitions}
    is_whole = all(partitions == of_topic(free, topic_id) for topic_id, partitions in wanted.items())
    state = MemberState.STABLE if is_whole else MemberState.UNRELEASED_PARTITIONS
    return _changed(member, target.epoch, state, keeps, gets=free)


def _without_other_topics(member: ConsumerMember, topic_ids: Collection[bytes]) -> ConsumerMember:
    """The member that also has to revoke its partitions of topics other than these."""
    gone = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id not in topic_ids}
    return attrs.evolve(
        member,
        assigned=difference(member.assigned, gone),
        pending_revocation=union(member.pending_revocation, gone),
    )


def _changed(
    member: ConsumerMember,
    epoch: int,
    state: MemberState,
    keeps: PartitionSets,
    *,
    gets: PartitionSets = NO_PARTITIONS,
    pending_revocation: PartitionSets = NO_PARTITIONS,
) -> ConsumerMember:
    changed = attrs.evolve(
        member,
        state=state,
        assigned=union(keeps, gets),
        pending_revocation=pending_revocation,
        assignment_epochs=after_step(member.assignment_epochs, union(keeps, pending_revocation), gets, epoch),
    )
    # If the epoch stays, the previous epoch stays as well.
    return changed if epoch == member.member_epoch else changed.at_epoch(epoch)


def _still_has(partitions: PartitionSets, owned: PartitionSets | None) -> bool:
    """True if the member may still own some of these partitions: it reports them, or reports nothing."""
    return bool(partitions) and (owned is None or bool(intersection(partitions, owned)))
