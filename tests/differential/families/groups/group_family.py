"""The part that the families of groups share: their topics and state, and when a coordinator is done."""

from collections.abc import Mapping
from typing import Final

import trio

from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.errors import ErrorCode
from tests.differential.families.groups.members import GROUP, TOPICS, Members, members_of
from tests.differential.sequences import Call, Place

_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.005
_GROUP_KEY: Final = 0
_PREPARING: Final = "PreparingRebalance"
_WITHOUT_MEMBERS: Final = ("", "Empty", "Dead")
_INITIAL_S: Final = 5


class GroupFamily:
    topics: Mapping[str, int] = TOPICS
    passing = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

    def new_state(self) -> Members:
        return Members()

    async def prepare(self, call: Call) -> None:
        """Waits for the coordinator of groups."""
        with trio.fail_after(_WITHIN_S):
            find = FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=["prepare"])
            while any(each.error_code for each in (await call(find, 6)).coordinators):
                await trio.sleep(_PAUSE_S)

    async def settle(self, place: Place, call: Call) -> None:
        """Waits until the coordinator has handled all requests so far.

        The first generation of a group that was empty begins by a timer, even if that has no delay.
        """
        members = members_of(place)
        request = DescribeGroupsRequest(groups=[place.named(GROUP)])
        for _ in range(2):
            state = (await call(request, 5)).groups[0].group_state
        deadline = trio.current_time() + _INITIAL_S
        while state == _PREPARING and members.group_state in _WITHOUT_MEMBERS and trio.current_time() < deadline:
            state = (await call(request, 5)).groups[0].group_state
        members.group_state = state
