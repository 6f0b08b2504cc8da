"""Share groups of a node over the wire: members, offsets, deletion, and a coordinator that fails (KIP-932)."""

from pathlib import Path
from typing import Any

import pytest
import trio

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
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.api.share_group_describe import ShareGroupDescribeRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce_request
from tests.support.running_node import running_node
from tests.support.share_member import enable_share_groups
from tests.support.share_requests import (
    WITHIN_S,
    assigned,
    described_offsets,
    joined,
    share_heartbeat,
)
from tests.support.wire_client import WireClient, connected, only

NODE = {
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
    "group_share_assignment_interval_ms": 0,
}
LEAVE = -1


async def altered(client: WireClient, group: str, **offsets: dict[int, int]) -> Any:
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in theirs.items()
            ],
        )
        for name, theirs in offsets.items()
    ]
    return await client.call(AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0)


async def test_share_group_lives_and_ends(tmp_path: Path) -> None:
    async with running_node(tmp_path, **NODE) as node, connected(node.port) as client:
        topic_id = await create_topic(client, partitions=2)
        await client.call(produce_request(batch(*[b"v"] * 5)), 9)
        await enable_share_groups(client, level=0)
        assert (await share_heartbeat(client, 0, ["topic"])).error_code == ErrorCode.UNSUPPORTED_VERSION
        await enable_share_groups(client)
        member = await joined(client, "topic")
        assert (member.member_epoch, member.assignment.topic_partitions) == (1, [])
        epoch, topics = await assigned(client, 2, member)
        assert topics == {topic_id: {0, 1}}
        assert node.node.broker is not None
        assert node.node.broker.coordination.services().shares.groups.rebalance_count == epoch

        listed = only((await client.call(ListGroupsRequest(types_filter=["Share"]), 5)).groups)
        assert (listed.group_id, listed.group_state, listed.group_type) == ("group", "Stable", "share")
        described = only((await client.call(ShareGroupDescribeRequest(group_ids=["group"]), 1)).groups)
        assert (described.group_state, described.group_epoch, described.assignor_name) == ("Stable", epoch, "simple")
        assert only(only(described.members).assignment.topic_partitions).topic_name == "topic"
        # A state that its leader has not used yet has no start offset, and so no lag.
        assert {(each.start_offset, each.lag) for each in (await described_offsets(client)).values()} == {(-1, -1)}

        assert (await altered(client, "group", topic={0: 1})).error_code == ErrorCode.NON_EMPTY_GROUP
        deleted = only((await client.call(DeleteGroupsRequest(groups_names=["group"]), 2)).results)
        assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await share_heartbeat(client, LEAVE)).member_epoch == LEAVE
        response = await altered(client, "group", topic={0: 2, 7: 0})
        assert [each.error_code for each in only(response.responses).partitions] == [0, 3]
        offsets = await described_offsets(client)
        assert (offsets["topic", 0].start_offset, offsets["topic", 0].lag) == (2, 3)
        assert (await described_offsets(client, version=0))["topic", 0].lag == -1

        deleted = only((await client.call(DeleteGroupsRequest(groups_names=["group"]), 2)).results)
        assert deleted.error_code == ErrorCode.NONE
        again = only((await client.call(DeleteGroupsRequest(groups_names=["group"]), 2)).results)
        assert again.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        # Its states are gone, too: a new group under its id begins where its own configs say.
        await assigned(client, 2, await joined(client, "topic"))
        assert {each.start_offset for each in (await described_offsets(client)).values()} == {-1}


async def test_topics_are_removed_from_a_group(tmp_path: Path) -> None:
    async with running_node(tmp_path, **NODE) as node, connected(node.port) as client:
        topic_id = await create_topic(client)
        await create_topic(client, "other")
        await assigned(client, 1, await joined(client, "topic"))
        await share_heartbeat(client, LEAVE)
        names = ["topic", "other", "gone", "topic"]
        request = DeleteShareGroupOffsetsRequest(
            group_id="group", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        )
        response = await client.call(request, 0)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert response.error_code == ErrorCode.NONE
        assert [(each.topic_name, each.error_code) for each in response.responses] == [
            ("topic", ErrorCode.NONE),
            ("other", unknown),
            ("gone", unknown),
        ]
        assert response.responses[0].topic_id == topic_id
        assert await described_offsets(client) == {}
        missing = DeleteShareGroupOffsetsRequest(group_id="none", topics=request.topics)
        assert (await client.call(missing, 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def not_compared(topic: object, other: object) -> bool:
    raise AssertionError("topics of a request are not compared with each other")


async def test_offsets_of_unknown_groups_topics_and_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_node(tmp_path, **NODE) as node, connected(node.port) as client:
        await create_topic(client)
        await joined(client, "topic", group="group")
        topics = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, -1, 9]) for name in ("topic", "gone")
        ]
        for group in ("group", "none"):
            groups = [DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)]
            described = only((await client.call(DescribeShareGroupOffsetsRequest(groups=groups), 1)).groups)
            assert described.error_code == ErrorCode.NONE
            partitions = [each for topic in described.topics for each in topic.partitions]
            assert {(each.start_offset, each.error_code) for each in partitions} == {(-1, ErrorCode.NONE)}
            assert len(partitions) == 6
        assert await described_offsets(client, "none") == {}
        for wanted in (topics, None):
            groups = [DescribeShareGroupOffsetsRequestGroup(group_id="", topics=wanted)]
            described = only((await client.call(DescribeShareGroupOffsetsRequest(groups=groups), 1)).groups)
            assert described.error_code == ErrorCode.INVALID_GROUP_ID
        twice = [DescribeShareGroupOffsetsRequestGroup(group_id="group", topics=None)] * 2
        only((await client.call(DescribeShareGroupOffsetsRequest(groups=twice), 1)).groups)
        # Comparing each of 12,000 topics with the others held the event loop for 2 s.
        monkeypatch.setattr(AlterShareGroupOffsetsRequestTopic, "__eq__", not_compared)
        names = [f"gone-{number}" for number in range(3)]
        response = await altered(client, "none", **{name: {0: 0} for name in names})
        codes = [(each.topic_name, only(each.partitions).error_code) for each in response.responses]
        assert codes == [(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names]


async def test_coordinator_that_fails_while_states_are_initialized_is_replaced(tmp_path: Path) -> None:
    """The share coordinator cannot answer before its topic can be created, which takes a second broker here."""
    stuck = NODE | {"share_coordinator_state_topic_replication_factor": 2}
    async with running_node(tmp_path, **stuck) as node, connected(node.port) as client:
        await create_topic(client)
        await enable_share_groups(client)
        member = await joined(client, "topic")
        assert member.assignment.topic_partitions == []
        node.crash()
    async with running_node(tmp_path, **NODE) as node, connected(node.port) as client:
        with trio.fail_after(WITHIN_S):
            while (response := await share_heartbeat(client, member.member_epoch)).error_code:
                await trio.sleep(0.02)
        _, topics = await assigned(client, 1, response)
        assert list(topics.values()) == [{0}]


async def test_failed_initialization_is_reported_and_repeated(tmp_path: Path) -> None:
    """A state of a later epoch fences the first initialization; it is deleted then."""
    quick = {"group_share_heartbeat_interval_ms": 50, "group_share_min_heartbeat_interval_ms": 50}
    async with running_node(tmp_path, **NODE, **quick) as node, connected(node.port) as client:
        topic_id = await create_topic(client)
        await joined(client, "topic", group="other")
        assert node.node.broker is not None
        store = node.node.broker.coordination.coordinators.share_states
        assert await store.initialize("group", topic_id, 0, 9, 0).wait() is None
        member = await joined(client, "topic")
        with trio.fail_after(WITHIN_S):
            while not node.traced.of("share_states_not_initialized"):
                await trio.sleep(0.02)
        told = node.traced.of("share_states_not_initialized")[0]
        assert (told["group"], told["partitions"]) == ("group", 1)
        assert str(told["error"]).startswith("FENCED_STATE_EPOCH")
        assert await store.delete("group", topic_id, 0).wait() is None
        await assigned(client, 1, member)
