"""Groups described: state, members and assignments, in the classic and in the consumer protocol (KIP-848), and those of
share groups (KIP-932).
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import attrs

from broker.client.admin.acls import authorized_operations
from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import UnsupportedByBroker
from broker.client.results import Failure, Outcomes, Results, failure
from broker.client.types import Node, TopicPartition
from broker.wire.api import consumer_group_describe as consumer
from broker.wire.api import describe_groups as classic
from broker.wire.api import share_group_describe as share
from broker.wire.consumer_protocol import decode_assignment
from broker.wire.errors import ErrorCode, KafkaError, WireError
from metadata.protocol import AclOperation

CONSUMER_PROTOCOL: Final = "consumer"
SHARE_PROTOCOL: Final = "share"

# With these codes a coordinator says that a group is not one of the consumer protocol, or no share group.
_IS_NOT_CONSUMER: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
# DescribeGroups reports authorized operations (KIP-430), and that a group does not exist (KIP-1043), since these.
_OPERATIONS_SINCE: Final = 3
_DEAD: Final = "Dead"


@attrs.frozen
class MemberDescription:
    """A member of a group.

    `assignment` has the partitions that it owns. In groups of the consumer protocol, `target_assignment` has those
    that it is to own, and its epoch and its subscription are known; `is_classic` is True for a member that speaks the
    classic protocol there (KIP-848). In groups of the classic protocol, the bytes of the member's own metadata and
    assignment are known; those of consumers are decoded.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    rack_id: str | None = None
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None
    is_classic: bool | None = None
    metadata_bytes: bytes | None = None
    assignment_bytes: bytes | None = None


@attrs.frozen
class GroupDescription:
    """A group; `type` "share" is a share group. The epochs are None in groups of the classic protocol.

    `assignor` is the assignor in the consumer protocol, and the protocol that the members chose in the classic one.
    """

    group_id: str
    type: Literal["classic", "consumer", "share"]
    protocol_type: str
    state: str
    assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None


class GroupDescriptionCalls(Routing):
    """Describes groups."""

    async def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, GroupDescription]:
        """Describes groups of the consumer protocol and of the classic one, and share groups.

        The error of a group that does not exist is GROUP_ID_NOT_FOUND.
        """

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, GroupDescription]:
            outcomes = await _describe_consumer_groups(broker, pending, include_authorized_operations)
            rest = [group_id for group_id in pending if group_id not in outcomes]
            if rest:
                described = await ask_for_classic_groups(broker, rest, include_authorized_operations)
                outcomes.update({group.group_id: _classic_group(group, broker.node) for group in described})
            absent = [group_id for group_id in rest if _is_absent(outcomes.get(group_id))]
            if absent:
                outcomes.update(await _describe_share_groups(broker, absent, include_authorized_operations))
            return outcomes

        return await self._by_coordinator(group_ids, ask, timeout_ms)


async def ask_for_classic_groups(
    broker: Broker, group_ids: Sequence[str], has_operations: bool = False
) -> list[classic.DescribedGroup]:
    """DescribeGroups; every group that was asked about is in the answer."""
    request = classic.DescribeGroupsRequest(groups=list(group_ids), include_authorized_operations=has_operations)
    response: classic.DescribeGroupsResponse = await broker.call(
        request, lowest=_OPERATIONS_SINCE if has_operations else 0
    )
    return response.groups


async def _describe_consumer_groups(
    broker: Broker, group_ids: Sequence[str], has_operations: bool
) -> Outcomes[str, GroupDescription]:
    """The groups that are of the consumer protocol; the others are left out."""
    request = consumer.ConsumerGroupDescribeRequest(
        group_ids=list(group_ids), include_authorized_operations=has_operations
    )
    try:
        response: consumer.ConsumerGroupDescribeResponse = await broker.call(request)
    except UnsupportedByBroker:
        return {}
    outcomes: Outcomes[str, GroupDescription] = {}
    for group in response.groups:
        error = failure(group.error_code, group.error_message)
        if error is None:
            outcomes[group.group_id] = _consumer_group(group, broker.node)
        elif error.code not in _IS_NOT_CONSUMER:
            outcomes[group.group_id] = error
    return outcomes


async def _describe_share_groups(
    broker: Broker, group_ids: Sequence[str], has_operations: bool
) -> Outcomes[str, GroupDescription]:
    """The share groups among these; the others are left out."""
    request = share.ShareGroupDescribeRequest(group_ids=list(group_ids), include_authorized_operations=has_operations)
    try:
        response: share.ShareGroupDescribeResponse = await broker.call(request)
    except UnsupportedByBroker:
        return {}
    outcomes: Outcomes[str, GroupDescription] = {}
    for group in response.groups:
        error = failure(group.error_code, group.error_message)
        if error is None:
            outcomes[group.group_id] = _share_group(group, broker.node)
        elif error.code not in _IS_NOT_CONSUMER:
            outcomes[group.group_id] = error
    return outcomes


def _is_absent(outcome: GroupDescription | Failure | None) -> bool:
    return isinstance(outcome, KafkaError) and outcome.code is ErrorCode.GROUP_ID_NOT_FOUND


def _share_group(group: share.DescribedGroup, coordinator: Node) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type="share",
        protocol_type=SHARE_PROTOCOL,
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=None,
                client_id=member.client_id,
                host=member.client_host,
                assignment=_partitions(member.assignment),
                epoch=member.member_epoch,
                rack_id=member.rack_id,
                subscribed_topics=tuple(member.subscribed_topic_names),
            )
            for member in group.members
        ),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=authorized_operations(group.authorized_operations),
    )


def _consumer_group(group: consumer.DescribedGroup, coordinator: Node) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type="consumer",
        protocol_type=CONSUMER_PROTOCOL,
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(map(_consumer_member, group.members)),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=authorized_operations(group.authorized_operations),
    )


def _consumer_member(member: consumer.DescribedMember) -> MemberDescription:
    is_known = member.member_type in (consumer.CLASSIC_MEMBER, consumer.CONSUMER_MEMBER)
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        target_assignment=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        rack_id=member.rack_id,
        subscribed_topics=tuple(member.subscribed_topic_names),
        subscribed_regex=member.subscribed_topic_regex or None,
        is_classic=member.member_type == consumer.CLASSIC_MEMBER if is_known else None,
    )


def _partitions(assignment: consumer.DescribedAssignment | share.DescribedAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _classic_group(group: classic.DescribedGroup, coordinator: Node) -> GroupDescription | Failure:
    error = failure(group.error_code, group.error_message)
    if error is not None:
        return error
    if group.group_state == _DEAD:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")
    is_of_consumers = group.protocol_type == CONSUMER_PROTOCOL
    return GroupDescription(
        group_id=group.group_id,
        type="classic",
        protocol_type=group.protocol_type,
        state=group.group_state,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member, is_of_consumers) for member in group.members),
        authorized_operations=authorized_operations(group.authorized_operations),
    )


def _classic_member(member: classic.DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_decoded_partitions(member.member_assignment) if is_consumer else (),
        metadata_bytes=bytes(member.member_metadata),
        assignment_bytes=bytes(member.member_assignment),
    )


def _decoded_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of a consumer; none while it has none, and for bytes that are no assignment."""
    if not assignment:
        return ()
    try:
        decoded = decode_assignment(assignment)
    except WireError:
        return ()
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in decoded.assigned_partitions
        for partition in topic.partitions
    )
