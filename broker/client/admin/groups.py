"""Groups: listed, deleted, their members removed (KIP-229, KIP-345, KIP-518, KIP-848)."""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from broker.client.admin.group_descriptions import ask_for_classic_groups
from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.results import Outcomes, Results, failure
from broker.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

# ListGroups filters by state (KIP-518), and by type (KIP-848), from these versions on.
_STATES_SINCE: Final = 4
_TYPES_SINCE: Final = 5
# LeaveGroup takes members other than the sender, and instance ids, from this version on (KIP-345).
_MANY_MEMBERS_SINCE: Final = 3
_REASON: Final = "member was removed by an admin"


@attrs.frozen
class GroupListing:
    """`protocol_type` is "consumer" for consumers. `state` and `type` are None where brokers do not report them."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None
    coordinator_id: int

    @property
    def is_simple(self) -> bool:
        """True if the group only keeps offsets, and never had members."""
        return not self.protocol_type


class GroupCalls(Routing):
    """Calls on groups."""

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
        timeout_ms: float | None = None,
    ) -> Results[int, list[GroupListing]]:
        """Lists the groups that each broker coordinates; `.chained()` of the results is all groups.

        A group is listed if it has one of the `states` ("Stable", "Empty", ...), one of the `types` ("classic",
        "consumer", "share", ...) and one of the `protocol_types` ("consumer", "connect", ...). An empty filter selects
        all groups.
        """
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        protocols = set(protocol_types)
        lowest = _TYPES_SINCE if request.types_filter else _STATES_SINCE if request.states_filter else 0

        async def ask(broker: Broker, deadline: Deadline) -> list[GroupListing]:
            response: ListGroupsResponse = await broker.call(request, lowest=lowest)
            check(response.error_code)
            return [
                _listing(group, broker.node.id)
                for group in response.groups
                if not protocols or group.protocol_type in protocols
            ]

        return await self._by_broker(None, ask, timeout_ms)

    async def delete_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> Results[str, None]:
        """Deletes groups that have no members, and their offsets."""

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, None]:
            response: DeleteGroupsResponse = await broker.call(DeleteGroupsRequest(groups_names=list(pending)))
            return {result.group_id: failure(result.error_code) for result in response.results}

        return await self._by_coordinator(group_ids, ask, timeout_ms)

    async def remove_members_from_group(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str = _REASON,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Removes static members by their instance ids; all members where `instance_ids` is None.

        The results are by instance id, and by member id for dynamic members, which are only removed along with all
        others. Raises KafkaError.
        """

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, Results[str, None]]:
            members = [MemberIdentity(group_instance_id=each, reason=reason) for each in instance_ids or ()]
            if instance_ids is None:
                members = await _members(broker, group_id, reason)
            request = LeaveGroupRequest(group_id=group_id, members=members)
            response: LeaveGroupResponse = await broker.call(request, lowest=_MANY_MEMBERS_SINCE)
            check(response.error_code)
            return {
                group_id: Results(
                    {each.group_instance_id or each.member_id: failure(each.error_code) for each in response.members}
                )
            }

        if instance_ids is not None:
            instance_ids = list(instance_ids)
        return (await self._by_coordinator([group_id], ask, timeout_ms)).value(group_id)


async def _members(broker: Broker, group_id: str, reason: str) -> list[MemberIdentity]:
    """The members that a group has now. Raises KafkaError."""
    (group,) = await ask_for_classic_groups(broker, [group_id])
    check(group.error_code, group.error_message)
    return [
        MemberIdentity(group_instance_id=member.group_instance_id, reason=reason)
        if member.group_instance_id is not None
        else MemberIdentity(member_id=member.member_id, reason=reason)
        for member in group.members
    ]


def _listing(group: ListedGroup, broker_id: int) -> GroupListing:
    return GroupListing(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        state=group.group_state or None,
        type=group.group_type.lower() or None,
        coordinator_id=broker_id,
    )
