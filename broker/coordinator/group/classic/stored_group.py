"""The record of a classic group, and the group that a coordinator loads from it."""

from typing import Final

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState, Member, Protocol
from broker.coordinator.group.classic.rebalance import subscriptions
from broker.coordinator.group.record_formats import GroupMetadataKey, GroupMetadataValue, MemberMetadata

_SESSION_TIMEOUT: Final = -1


def stored_value(group: ClassicGroup) -> GroupMetadataValue:
    """The record's value for a group that is stable or empty."""
    assert group.state in (GroupState.STABLE, GroupState.EMPTY), f"a group is not persisted while {group.state}"
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def stored_key(group_id: str) -> GroupMetadataKey:
    return GroupMetadataKey(group=group_id)


def group_from(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that the record describes. Its members support only the elected protocol, since the record has no
    other.

    A group without a leader was a consumer group. It has to begin a rebalance.
    """
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        state_since_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
    )
    for member in value.members:
        group.put(_member(member, value.protocol or ""))
    group.leader_id = value.leader
    group.subscribed_topics = subscriptions(group)
    return group


def _member(member: MemberMetadata, protocol_name: str) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=(
            member.session_timeout if member.rebalance_timeout == _SESSION_TIMEOUT else member.rebalance_timeout
        ),
        session_timeout_ms=member.session_timeout,
        protocols=(Protocol(protocol_name, bytes(member.subscription)),),
        assignment=bytes(member.assignment),
    )
