"""OffsetCommit, OffsetFetch and OffsetDelete, in every version, by clients that are not members of a group."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID
from tests.support.requests import create_topic
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

WITHIN_S = 20.0
COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
NOTHING = (-1, -1, "", 0)


def topic_id(node: RunningNode, name: str) -> bytes:
    assert node.node.loader is not None, "the node serves"
    found = node.node.loader.image.topics.by_name.get(name)
    return ZERO_UUID if found is None else found.topic_id


async def coordinated(client: WireClient, group: str = "group") -> None:
    """Wait until there is a coordinator for the group."""
    with trio.fail_after(WITHIN_S):
        while True:
            found = await client.call(FindCoordinatorRequest(key=group), 3)
            fetched = await client.call(OffsetFetchRequest(group_id=group, topics=[]), 7)
            if (found.error_code, fetched.error_code) == (0, 0):
                return
            await trio.sleep(0.02)


async def commit(
    node: RunningNode,
    client: WireClient,
    offsets: dict[int, int],
    version: int = 9,
    *,
    topic: str = "topic",
    group: str = "group",
    metadata: str | None = "note",
    leader_epoch: int = 3,
    **fields: Any,
) -> dict[int, int]:
    """Commit offsets. Returns the error codes by partition."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        for index, offset in offsets.items()
    ]
    asked = OffsetCommitRequestTopic(name=topic, topic_id=topic_id(node, topic), partitions=partitions)
    response = await client.call(OffsetCommitRequest(group_id=group, topics=[asked], **fields), version)
    answer = only(response.topics)
    assert answer.topic_id == (asked.topic_id if version >= 10 else ZERO_UUID)
    return {partition.partition_index: partition.error_code for partition in answer.partitions}


async def fetch(
    node: RunningNode,
    client: WireClient,
    version: int = 9,
    *,
    group: str = "group",
    topics: dict[str, list[int]] | None = None,
    **fields: Any,
) -> dict[tuple[str, int], tuple[int, int, str | None, int]]:
    """Offset, leader epoch, metadata and error code by topic and partition; for all of them without `topics`."""
    if version < 8:
        old = None
        if topics is not None:
            old = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        response = await client.call(OffsetFetchRequest(group_id=group, topics=old, **fields), version)
        assert response.error_code == 0
        answers: Any = response.topics
    else:
        new = None
        if topics is not None:
            new = [
                OffsetFetchRequestTopics(name=name, topic_id=topic_id(node, name), partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        groups = [OffsetFetchRequestGroup(group_id=group, topics=new)]
        answer = only((await client.call(OffsetFetchRequest(groups=groups, **fields), version)).groups)
        assert (answer.group_id, answer.error_code) == (group, 0)
        answers = answer.topics
    names = {topic_id(node, name): name for name in ("topic", "other")} if version >= 10 else {}
    return {
        (names.get(getattr(topic, "topic_id", None), topic.name), each.partition_index): (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in answers
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_committed_offset_is_fetched(node: RunningNode, client: WireClient, version: int) -> None:
    await create_topic(client, partitions=2)
    await coordinated(client)

    assert await commit(node, client, {0: 10, 1: 20}, version) == {0: 0, 1: 0}

    epoch = 3 if version >= 6 else -1
    assert await fetch(node, client, topics={"topic": [0, 1]}) == {
        ("topic", 0): (10, epoch, "note", 0),
        ("topic", 1): (20, epoch, "note", 0),
    }


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_offsets_are_told_in_every_version(node: RunningNode, client: WireClient, version: int) -> None:
    await create_topic(client, partitions=3)
    await coordinated(client)
    await commit(node, client, {0: 10, 2: 30})

    told = await fetch(node, client, version, topics={"topic": [2, 1]})

    epoch = 3 if version >= 5 else -1
    assert told == {("topic", 2): (30, epoch, "note", 0), ("topic", 1): NOTHING}
    if version >= 2:
        everything = await fetch(node, client, version)
        assert {place: each[0] for place, each in everything.items()} == {("topic", 0): 10, ("topic", 2): 30}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_a_group_that_is_not_there_has_committed_nothing(
    node: RunningNode, client: WireClient, version: int
) -> None:
    await create_topic(client)
    await coordinated(client)

    assert await fetch(node, client, version, topics={"topic": [0]}, group="nobody") == {("topic", 0): NOTHING}
    if version >= 2:
        assert await fetch(node, client, version, group="nobody") == {}


async def test_many_groups_are_told_together(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)
    await coordinated(client)
    for number in range(5):
        await commit(node, client, {0: number}, group=f"group-{number}")
    asked = [OffsetFetchRequestGroup(group_id=f"group-{number}", topics=None) for number in (3, 0, 7, 4)]

    response = await client.call(OffsetFetchRequest(groups=asked), 8)

    told = [
        (group.group_id, [each.committed_offset for topic in group.topics for each in topic.partitions])
        for group in response.groups
    ]
    assert told == [("group-3", [3]), ("group-0", [0]), ("group-7", []), ("group-4", [4])]


async def test_without_a_coordinator_nothing_is_committed_or_told(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)

    assert await commit(node, client, {0: 1}) == {0: ErrorCode.NOT_COORDINATOR}

    old = OffsetFetchRequest(group_id="group", topics=[OffsetFetchRequestTopic(name="topic", partition_indexes=[0])])
    assert (await client.call(old, 7)).error_code == ErrorCode.NOT_COORDINATOR
    partition = only(only((await client.call(old, 1)).topics).partitions)
    assert (partition.error_code, partition.committed_offset) == (ErrorCode.NOT_COORDINATOR, -1)
    delete = OffsetDeleteRequest(group_id="group", topics=[delete_topic([0])])
    assert (await client.call(delete, 0)).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_partitions_that_are_not_there_are_refused_and_the_others_committed(
    node: RunningNode, client: WireClient, version: int
) -> None:
    await create_topic(client)
    await coordinated(client)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(node, client, {0: 1, 7: 2}, version) == {0: 0, 7: unknown}
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else unknown
    assert await commit(node, client, {0: 1}, version, topic="absent") == {0: expected}


async def test_an_unknown_topic_id_is_told_of(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)
    await coordinated(client)
    await commit(node, client, {0: 5})
    topics = [
        OffsetFetchRequestTopics(topic_id=b"absent" + bytes(10), partition_indexes=[4]),
        OffsetFetchRequestTopics(topic_id=topic_id(node, "topic"), partition_indexes=[0]),
    ]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=topics)])

    answers = {topic.topic_id: only(topic.partitions) for topic in only((await client.call(request, 10)).groups).topics}

    absent = answers[b"absent" + bytes(10)]
    assert (absent.partition_index, absent.error_code) == (4, ErrorCode.UNKNOWN_TOPIC_ID)
    assert answers[topic_id(node, "topic")].committed_offset == 5


async def test_metadata_may_be_absent_and_must_not_be_long(tmp_path: Path) -> None:
    async with running_node(tmp_path, offset_metadata_max_bytes=5) as node, connected(node.port) as client:
        await create_topic(client)
        await coordinated(client)
        assert await commit(node, client, {0: 1}, metadata=None) == {0: 0}
        assert await commit(node, client, {0: 2}, metadata="é" * 5) == {0: 0}
        assert await commit(node, client, {0: 3}, metadata="sechs!") == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert await fetch(node, client, topics={"topic": [0]}) == {("topic", 0): (2, 3, "ééééé", 0)}


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
async def test_a_member_of_a_group_that_is_not_there_commits_nothing(
    node: RunningNode, client: WireClient, version: int, code: ErrorCode
) -> None:
    await create_topic(client)
    await coordinated(client)

    codes = await commit(node, client, {0: 1}, version, generation_id_or_member_epoch=1, member_id="member")

    assert codes == {0: code}
    assert await fetch(node, client) == {}


async def test_a_simple_group_has_no_members(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)
    await coordinated(client)
    await commit(node, client, {0: 1})

    codes = await commit(node, client, {0: 2}, generation_id_or_member_epoch=1, member_id="member")

    assert codes == {0: ErrorCode.UNKNOWN_MEMBER_ID}


async def join(client: WireClient) -> tuple[str, int]:
    """Join as the only member of the group, subscribed to the topic. Returns the member's id and the generation."""
    subscription = b"\0\0" + b"\0\0\0\1" + b"\0\5topic" + b"\xff\xff\xff\xff"
    joining = JoinGroupRequest(
        group_id="group",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    joining.member_id = (await client.call(joining, 9)).member_id
    joined = await client.call(joining, 9)
    assert (joined.error_code, joined.leader) == (0, joined.member_id)
    return joined.member_id, joined.generation_id


async def sync(client: WireClient, member_id: str, generation: int) -> None:
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"assignment")
    syncing = SyncGroupRequest(
        group_id="group", generation_id=generation, member_id=member_id, assignments=[assignment]
    )
    assert (await client.call(syncing, 3)).assignment == b"assignment"


async def test_members_commit_in_their_generation(tmp_path: Path) -> None:
    async with running_node(tmp_path, group_initial_rebalance_delay_ms=0) as node, connected(node.port) as client:
        await create_topic(client)
        await create_topic(client, "other")
        await coordinated(client)
        member_id, generation = await join(client)

        async def code(offset: int, member_id: str, generation: int) -> int:
            fields = {"member_id": member_id, "generation_id_or_member_epoch": generation}
            return (await commit(node, client, {0: offset}, **fields))[0]

        assert await code(1, member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        await sync(client, member_id, generation)
        assert await code(2, member_id, generation) == 0
        assert await code(3, member_id, generation - 1) == ErrorCode.ILLEGAL_GENERATION
        assert await code(4, "somebody", generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await code(5, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await fetch(node, client) == {("topic", 0): (2, 3, "note", 0)}
        await commit(node, client, {0: 6}, topic="other", member_id=member_id, generation_id_or_member_epoch=generation)
        topics = [delete_topic([0]), delete_topic([0], "other")]
        response = await client.call(OffsetDeleteRequest(group_id="group", topics=topics), 0)
        codes = [only(topic.partitions).error_code for topic in response.topics]
        assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]


def delete_topic(indexes: list[int], name: str = "topic") -> OffsetDeleteRequestTopic:
    return OffsetDeleteRequestTopic(
        name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    )


async def test_offsets_are_deleted(node: RunningNode, client: WireClient) -> None:
    await create_topic(client, partitions=2)
    await coordinated(client)
    await commit(node, client, {0: 1, 1: 2})
    topics = [delete_topic([0, 5]), delete_topic([0], "absent")]

    response = await client.call(OffsetDeleteRequest(group_id="group", topics=topics), 0)

    assert response.error_code == 0
    codes = {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {("topic", 0): 0, ("topic", 5): unknown, ("absent", 0): unknown}
    assert await fetch(node, client) == {("topic", 1): (2, 3, "note", 0)}


@pytest.mark.parametrize(("group", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("no", ErrorCode.GROUP_ID_NOT_FOUND)])
async def test_offsets_of_no_group_are_not_deleted(client: WireClient, group: str, code: ErrorCode) -> None:
    await create_topic(client)
    await coordinated(client)
    for topics in ([delete_topic([0])], [delete_topic([5]), delete_topic([0], "absent")], []):
        response = await client.call(OffsetDeleteRequest(group_id=group, topics=topics), 0)
        assert (response.error_code, response.topics) == (code, [])


@pytest.mark.parametrize("version", [7, 9])
async def test_offset_minus_1_is_among_all_offsets_of_a_group(
    node: RunningNode, client: WireClient, version: int
) -> None:
    await create_topic(client, partitions=2)
    await coordinated(client)
    await commit(node, client, {0: -1, 1: 2})
    assert await fetch(node, client, version) == {("topic", 0): (-1, 3, "note", 0), ("topic", 1): (2, 3, "note", 0)}


async def test_offsets_outlive_the_node(tmp_path: Path) -> None:
    for end, committed in (("crash", {0: 1, 1: 1}), ("stop", {1: 2})):
        async with running_node(tmp_path) as node, connected(node.port) as client:
            if end == "crash":
                await create_topic(client, partitions=2)
            await coordinated(client)
            assert set((await commit(node, client, committed)).values()) == {0}
            if end == "crash":
                node.crash()
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await coordinated(client)
        told = await fetch(node, client)
    assert {place: each[0] for place, each in told.items()} == {("topic", 0): 1, ("topic", 1): 2}


async def test_offsets_go_with_their_topic(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)
    await create_topic(client, "other")
    await coordinated(client)
    await commit(node, client, {0: 1})
    await commit(node, client, {0: 2}, topic="other")

    await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="topic")], timeout_ms=5_000), 6)

    with trio.fail_after(WITHIN_S):
        while ("topic", 0) in await fetch(node, client):
            await trio.sleep(0.02)
    assert await fetch(node, client) == {("other", 0): (2, 3, "note", 0)}
    await create_topic(client)
    assert await commit(node, client, {0: 7}) == {0: 0}
    assert (await fetch(node, client))["topic", 0][0] == 7


async def test_offsets_expire(tmp_path: Path) -> None:
    now_s = 1_000_000.0
    async with (
        running_node(
            tmp_path, wall=lambda: now_s, offsets_retention_minutes=10, offsets_retention_check_interval_ms=20
        ) as node,
        connected(node.port) as client,
    ):
        await create_topic(client, partitions=3)
        await coordinated(client)
        await commit(node, client, {0: 1})
        await commit(node, client, {2: 3}, 4, retention_time_ms=3_600_000)
        now_s += 599.0
        await commit(node, client, {1: 2})
        assert len(await fetch(node, client)) == 3

        now_s += 1.0
        with trio.fail_after(WITHIN_S):
            while ("topic", 0) in await fetch(node, client):
                await trio.sleep(0.02)
        assert {place: each[0] for place, each in (await fetch(node, client)).items()} == {
            ("topic", 1): 2,
            ("topic", 2): 3,
        }

        now_s += 3_000.0
        with trio.fail_after(WITHIN_S):
            while await fetch(node, client):
                await trio.sleep(0.02)
