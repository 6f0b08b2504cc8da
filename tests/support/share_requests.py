"""Requests of members and administrators of share groups over the wire."""

from typing import Any, Final

import trio

from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from broker.wire.errors import ErrorCode
from tests.support.wire_client import WireClient, only

WITHIN_S: Final = 20.0
_JOINING_AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNSUPPORTED_VERSION,
)


async def share_heartbeat(
    client: WireClient, epoch: int, topics: list[str] | None = None, *, group: str = "group", member: str = "member"
) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
    )
    return await client.call(request, 1)


async def joined(client: WireClient, *topics: str, group: str = "group", member: str = "member") -> Any:
    """The response to the first heartbeat of a member, once the group has a coordinator."""
    await client.call(FindCoordinatorRequest(coordinator_keys=[group]), 4)
    with trio.fail_after(WITHIN_S):
        while True:
            response = await share_heartbeat(client, 0, list(topics), group=group, member=member)
            if response.error_code not in _JOINING_AGAIN:
                assert response.error_code == ErrorCode.NONE, response.error_message
                return response
            await trio.sleep(0.02)


async def assigned(
    client: WireClient, count: int, response: Any, *, group: str = "group", member: str = "member"
) -> tuple[int, dict[bytes, set[int]]]:
    """Sends heartbeats until the member has `count` partitions; returns its epoch and them, by topic id.

    `response` is that of its last heartbeat.
    """
    topics: dict[bytes, set[int]] = {}
    with trio.fail_after(WITHIN_S):
        while True:
            if response.assignment is not None:
                topics = {each.topic_id: set(each.partitions) for each in response.assignment.topic_partitions}
            if sum(map(len, topics.values())) == count:
                return response.member_epoch, topics
            await trio.sleep(0.02)
            response = await share_heartbeat(client, response.member_epoch, group=group, member=member)
            assert response.error_code == ErrorCode.NONE, response.error_message


async def described_offsets(client: WireClient, group: str = "group", version: int = 1) -> dict[tuple[str, int], Any]:
    """All partitions of the group by topic and index."""
    asked = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    described = only((await client.call(asked, version)).groups)
    assert described.error_code == ErrorCode.NONE, described.error_message
    return {(topic.topic_name, each.partition_index): each for topic in described.topics for each in topic.partitions}
