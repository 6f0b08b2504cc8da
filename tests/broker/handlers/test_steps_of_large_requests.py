"""Handlers of large requests end a step after few items, so that the event loop serves other clients between them."""

from collections.abc import AsyncIterator, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.node import Dispatchers
from broker.server.context import BrokerContext
from broker.server.dispatch import Dispatcher
from broker.server.handler import Handler
from broker.server.services import Services
from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.write_share_group_state import PartitionData, WriteShareGroupStateRequest, WriteStateData
from broker.wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import create_topic
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected, only

SHARE_GROUPS = {
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
}
GROUP, OTHER_GROUP = "group", "other"
COUNT = 1_000
# The most topics, partitions, groups or members in one step; and the most markers.
STEP_ITEMS = 32
STEP_MARKERS = 10
# Topics are first authorized, in steps of their own.
TWICE = STEP_ITEMS // 2
MEMBERS_MAX = 10_000
SHARE_GROUPS_AT_ONCE = 8


class SteppingDispatcher(Dispatcher[Services]):
    """Counts the steps of the last request's handler."""

    steps = 0

    def carry_out(self, context: BrokerContext, handler: Handler, request: Any, payload: bytes | bytearray) -> Any:
        work = super().carry_out(context, handler, request, payload)
        self.steps = 0
        return self._counted(work) if isinstance(work, Generator) else work

    def _counted(self, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        resume = partial(next, work)
        while True:
            try:
                reached = resume()
            except StopIteration as stopped:
                return stopped.value
            self.steps += reached is None
            try:
                outcome = yield reached
            except Exception as error:  # noqa: BLE001 - the work's own
                resume = partial(work.throw, error)
            else:
                resume = partial(work.send, outcome)


class Stepping:
    """A client, and the dispatcher of its node."""

    def __init__(self, client: WireClient, dispatcher: SteppingDispatcher) -> None:
        self.client = client
        self.dispatcher = dispatcher

    async def call(self, request: Any, version: int, *, step_items: int = STEP_ITEMS) -> Any:
        """The response to a request with COUNT items, which must take enough steps."""
        response = await self.client.call(request, version)
        assert self.dispatcher.steps >= COUNT // step_items
        return response


@pytest.fixture
async def stepping(tmp_path: Path) -> AsyncIterator[Stepping]:
    made: list[SteppingDispatcher] = []

    def dispatcher(*arguments: Any, **options: Any) -> SteppingDispatcher:
        made.append(SteppingDispatcher(*arguments, **options))
        return made[-1]

    async with (
        running_node(tmp_path, dispatchers=Dispatchers(broker=dispatcher), **SHARE_GROUPS) as node,
        connected(node.port) as client,
    ):
        await create_topic(client, "a", partitions=2)
        await _coordinated(client)
        yield Stepping(client, made[0])


async def _coordinated(client: WireClient) -> None:
    """Create the topic of the groups' coordinators, and wait until the one of all groups here is loaded."""
    await client.call(FindCoordinatorRequest(coordinator_keys=[GROUP, OTHER_GROUP]), 4)
    groups = [DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in (GROUP, OTHER_GROUP)]
    request = DescribeShareGroupOffsetsRequest(groups=groups)
    with trio.fail_after(20):
        while any(each.error_code for each in (await client.call(request, 1)).groups):
            pass


async def test_leave_group_answers_in_steps(stepping: Stepping) -> None:
    members = [MemberIdentity(member_id=f"member-{number}", group_instance_id=None) for number in range(COUNT)]
    answer = await stepping.call(LeaveGroupRequest(group_id=GROUP, members=members), 5)
    assert [each.member_id for each in answer.members] == [each.member_id for each in members]
    assert {each.error_code for each in answer.members} == {ErrorCode.UNKNOWN_MEMBER_ID}


async def test_leave_group_with_more_members_than_one_decision_takes_is_malformed(stepping: Stepping) -> None:
    for count in (MEMBERS_MAX, MEMBERS_MAX + 1):
        members = [MemberIdentity(member_id="a", group_instance_id=None)] * count
        await stepping.client.send(LeaveGroupRequest(group_id=GROUP, members=members), 4)
        if count == MEMBERS_MAX:
            assert len((await stepping.client.receive()).members) == MEMBERS_MAX
    await stepping.client.expect_close()


@pytest.mark.parametrize("topic", ["a", "missing"])
async def test_share_group_offsets_of_many_partitions_are_described_in_steps(stepping: Stepping, topic: str) -> None:
    asked = DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(range(COUNT)))
    group = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=[asked])
    answer = await stepping.call(DescribeShareGroupOffsetsRequest(groups=[group]), 1)
    described = only(only(answer.groups).topics)
    assert [each.partition_index for each in described.partitions] == list(range(COUNT))
    assert {each.start_offset for each in described.partitions} == {-1}


async def test_share_group_offsets_of_many_topics_are_described_in_steps(stepping: Stepping) -> None:
    topics = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=f"missing-{number}", partitions=[0]) for number in range(COUNT)
    ]
    group = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=topics)
    answer = await stepping.call(DescribeShareGroupOffsetsRequest(groups=[group]), 1, step_items=TWICE)
    assert [each.topic_name for each in only(answer.groups).topics] == [each.topic_name for each in topics]


@pytest.mark.parametrize("group_id", ["", OTHER_GROUP])
async def test_share_group_offsets_of_many_groups_are_described_in_steps(stepping: Stepping, group_id: str) -> None:
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="missing", partitions=[0])]
    groups = [DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics) for _ in range(COUNT)]
    answer = await stepping.call(DescribeShareGroupOffsetsRequest(groups=groups), 1)
    codes = [each.error_code for each in answer.groups]
    assert codes == [ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID] * COUNT


async def test_share_group_offsets_are_altered_in_steps(stepping: Stepping) -> None:
    partitions = [AlterShareGroupOffsetsRequestPartition(partition_index=n, start_offset=n) for n in range(COUNT)]
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="a", partitions=partitions)
    answer = await stepping.call(AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]), 0)
    codes = [each.error_code for each in only(answer.responses).partitions]
    assert codes == [ErrorCode.NONE] * 2 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (COUNT - 2)
    topics = [
        AlterShareGroupOffsetsRequestTopic(topic_name=f"missing-{number}", partitions=partitions[:1])
        for number in range(COUNT)
    ]
    answer = await stepping.call(AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics), 0, step_items=TWICE)
    assert [each.topic_name for each in answer.responses] == [each.topic_name for each in topics]


async def test_share_group_offsets_are_deleted_in_steps(stepping: Stepping) -> None:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7)
    altered = AlterShareGroupOffsetsRequestTopic(topic_name="a", partitions=[partition])
    await stepping.client.call(AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[altered]), 0)
    names = ["a", *(f"missing-{number}" for number in range(COUNT))]
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    answer = await stepping.call(DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics), 0, step_items=TWICE)
    codes = [(each.topic_name, each.error_code) for each in answer.responses]
    assert codes[0] == ("a", ErrorCode.NONE)
    assert codes[1:] == [(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names[1:]]


async def test_states_of_share_groups_are_deleted_some_groups_at_a_time(stepping: Stepping) -> None:
    """The deletion of 250 groups with 500 partitions each held the event loop for 50 ms."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7)
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name="a", partitions=[partition])]
    names = [f"group-{number:03}" for number in range(16 * SHARE_GROUPS_AT_ONCE)]
    await stepping.client.call(FindCoordinatorRequest(coordinator_keys=names), 4)
    for name in names:
        with trio.fail_after(20):
            request = AlterShareGroupOffsetsRequest(group_id=name, topics=topics)
            while (await stepping.client.call(request, 0)).error_code:
                pass
    deleted = await stepping.client.call(DeleteGroupsRequest(groups_names=names), 2)
    assert {each.group_id: each.error_code for each in deleted.results} == dict.fromkeys(names, ErrorCode.NONE)
    # Steps of their own check who may delete the groups.
    assert stepping.dispatcher.steps >= len(names) // SHARE_GROUPS_AT_ONCE + len(names) // STEP_ITEMS


async def test_markers_of_transactions_are_appended_in_steps(stepping: Stepping) -> None:
    """100 markers in each step blocked the loop for 30 ms, because the first five steps are taken in one turn."""
    markers = [
        WritableTxnMarker(
            producer_id=number,
            producer_epoch=0,
            topics=[WritableTxnMarkerTopic(name="a", partition_indexes=[number % 2])],
        )
        for number in range(COUNT)
    ]
    answer = await stepping.call(WriteTxnMarkersRequest(markers=markers), 1, step_items=STEP_MARKERS)
    results = [only(only(each.topics).partitions) for each in answer.markers]
    assert [each.partition_index for each in results] == [number % 2 for number in range(COUNT)]
    assert {each.error_code for each in results} == {ErrorCode.NONE}


async def test_states_of_share_partitions_are_written_one_in_each_step(stepping: Stepping) -> None:
    """After the coordinator was loaded, each may have 500 updates to merge first, which takes 3 ms."""
    partitions = [PartitionData(partition=number) for number in range(COUNT)]
    topics = [WriteStateData(topic_id=bytes(16), partitions=partitions)]
    answer = await stepping.call(WriteShareGroupStateRequest(group_id=GROUP, topics=topics), 1, step_items=1)
    assert [each.partition for each in only(answer.results).partitions] == list(range(COUNT))
