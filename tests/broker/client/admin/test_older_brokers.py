"""Calls of an Admin need no later version of a request than its fields do (KIP-35)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import trio

from broker.client import (
    Admin,
    ElectionType,
    NewTopic,
    OffsetSpec,
    TopicPartition,
    UnsupportedByBroker,
)
from broker.wire.api import APIS
from broker.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.scripted_admin import admin_of

P0 = TopicPartition("orders", 0)
Call = Callable[[Admin], Awaitable[object]]

# The API, the first version that a call needs, and the call.
CALLS: list[tuple[str, int, Call]] = [
    ("OffsetFetch", 1, lambda admin: admin.list_group_offsets({"group": [P0]})),
    ("OffsetFetch", 2, lambda admin: admin.list_group_offsets({"group": None})),
    ("OffsetFetch", 7, lambda admin: admin.list_group_offsets({"group": [P0]}, require_stable=True)),
    ("ListGroups", 0, lambda admin: admin.list_groups()),
    ("ListGroups", 4, lambda admin: admin.list_groups(states=["Stable"])),
    ("ListGroups", 5, lambda admin: admin.list_groups(types=["consumer"])),
    ("LeaveGroup", 3, lambda admin: admin.remove_members_from_group("group", ["instance"])),
    ("DescribeGroups", 0, lambda admin: admin.describe_groups(["group"])),
    ("DescribeGroups", 3, lambda admin: admin.describe_groups(["group"], include_authorized_operations=True)),
    ("AlterPartitionReassignments", 0, lambda admin: admin.alter_partition_reassignments({P0: [1]})),
    (
        "AlterPartitionReassignments",
        1,
        lambda admin: admin.alter_partition_reassignments({P0: [1]}, allow_replication_factor_change=False),
    ),
    ("ElectLeaders", 0, lambda admin: admin.elect_leaders([P0])),
    ("ElectLeaders", 1, lambda admin: admin.elect_leaders([P0], election_type=ElectionType.UNCLEAN)),
    ("ListTransactions", 0, lambda admin: admin.list_transactions()),
    ("ListTransactions", 1, lambda admin: admin.list_transactions(open_for_ms=1)),
    ("ListTransactions", 2, lambda admin: admin.list_transactions(transactional_id_pattern="a.*")),
    ("CreateTopics", 2, lambda admin: admin.create_topics([NewTopic("orders", 1, 1)])),
    ("CreateTopics", 4, lambda admin: admin.create_topics([NewTopic("orders", 1)])),
    ("DeleteTopics", 1, lambda admin: admin.delete_topics(["orders"])),
    ("DeleteTopics", 6, lambda admin: admin.delete_topics([bytes([1] * 16)])),
    ("ListOffsets", 1, lambda admin: admin.list_offsets({P0: OffsetSpec.LATEST})),
    ("ListOffsets", 2, lambda admin: admin.list_offsets({P0: 1000}, isolation_level="read_committed")),
    ("ListOffsets", 7, lambda admin: admin.list_offsets({P0: OffsetSpec.MAX_TIMESTAMP})),
    ("ListOffsets", 8, lambda admin: admin.list_offsets({P0: OffsetSpec.EARLIEST_LOCAL})),
]


async def is_sent(api: str, highest: int, call: Call) -> bool:
    """True if a broker with this highest version of the API gets a request, which it does not answer.

    False if the call is refused because of the version.
    """
    sent = refused = False
    happened = trio.Event()

    def receive(request: Any) -> None:
        nonlocal sent
        sent = True
        happened.set()

    def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=node.port)

    async def run() -> None:
        nonlocal refused
        try:
            outcome = await call(admin)
        except UnsupportedByBroker:
            refused = True
        else:
            assert isinstance(outcome, Mapping)
            refused = any(isinstance(each, UnsupportedByBroker) for each in outcome.values())
        happened.set()

    (request,) = [each.request for each in APIS.values() if each.name == api]
    versions = {"FindCoordinator": 3, "ConsumerGroupDescribe": -1, api: highest}
    script = {FindCoordinatorRequest: find, request: receive}
    async with admin_of(script, versions) as (node, admin), trio.open_nursery() as nursery:
        nursery.start_soon(run)
        with trio.fail_after(10):
            await happened.wait()
        nursery.cancel_scope.cancel()
    assert sent != refused
    return sent


@pytest.mark.parametrize(("api", "first", "call"), CALLS, ids=[f"{api} {first}" for api, first, _ in CALLS])
async def test_request_is_sent_from_the_first_version_on_that_has_its_fields(api: str, first: int, call: Call) -> None:
    assert await is_sent(api, first, call)
    if first > 0:
        assert not await is_sent(api, first - 1, call)
