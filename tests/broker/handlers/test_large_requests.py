"""Requests about much are answered as those about little: duplicates once, everything in order, in slices."""

from pathlib import Path

from broker.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from broker.wire.errors import ErrorCode
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

TOPIC, BROKER = 2, 4
MANY_PARTITIONS = 250


async def test_resource_that_is_named_2000_times_is_described_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource] * 2_000, include_documentation=True)
        described = await client.call(request, 4)
        assert only(described.results).configs


async def test_group_that_is_named_many_times_is_described_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _coordinated(client)
        for names, expected in ((["a"] * 20, ["a"]), (["a", "b"] * 1_000, ["a", "b"]), (_groups(40), _groups(40))):
            described = await client.call(DescribeGroupsRequest(groups=names), 6)
            assert [group.group_id for group in described.groups] == expected
            assert {group.error_code for group in described.groups} == {ErrorCode.GROUP_ID_NOT_FOUND}
            consumer = await client.call(ConsumerGroupDescribeRequest(group_ids=names), 1)
            assert [group.group_id for group in consumer.groups] == expected
            found = await client.call(FindCoordinatorRequest(coordinator_keys=names), 6)
            assert [(each.key, each.node_id) for each in found.coordinators] == [(name, 1) for name in expected]
            deleted = await client.call(DeleteGroupsRequest(groups_names=names), 2)
            assert sorted(result.group_id for result in deleted.results) == expected


async def test_large_offset_commit_and_fetch_cover_every_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _coordinated(client)
        await _create(client, "wide", MANY_PARTITIONS)
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
            for index in range(MANY_PARTITIONS + 1)
        ]
        unknown = OffsetCommitRequestTopic(name="unknown", partitions=partitions[:1])
        request = OffsetCommitRequest(
            group_id="group", topics=[OffsetCommitRequestTopic(name="wide", partitions=partitions), unknown]
        )
        wide, other = (await client.call(request, 8)).topics
        codes = [partition.error_code for partition in wide.partitions]
        assert codes == [ErrorCode.NONE] * MANY_PARTITIONS + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert only(other.partitions).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        asked = OffsetFetchRequestTopics(name="wide", partition_indexes=list(range(MANY_PARTITIONS + 1)))
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=[asked])])
        topic = only(only((await client.call(fetch, 9)).groups).topics)
        assert [each.committed_offset for each in topic.partitions] == [*range(MANY_PARTITIONS), -1]


async def test_large_create_topics_answers_each_name_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        names = [f"topic-{number:04}" for number in range(500)]
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in [*names, names[3]]]
        created = await client.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True), 7)
        assert sorted(topic.name for topic in created.topics) == names
        refused = only([topic for topic in created.topics if topic.error_code])
        assert (refused.name, refused.error_message) == (names[3], "Duplicate topic name.")


async def test_metadata_of_many_missing_topics_answers_each_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        names = [f"missing-{number:05}" for number in range(10_000)]
        topics = [MetadataRequestTopic(name=name) for name in [*names, *names]]
        described = await client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        assert [topic.name for topic in described.topics] == names


async def test_full_metadata_follows_every_change(tmp_path: Path) -> None:
    """The cached encoding is that of the image: after a topic comes, grows or goes."""
    async with running_node(tmp_path) as node, connected(node.port) as client:
        for number in range(3):
            await _create(client, f"topic-{number}", 40)
            for version in (1, 5, 9, 12):
                await _assert_full_is_sum_of_single(node, client, version)


async def _assert_full_is_sum_of_single(node: RunningNode, client: WireClient, version: int) -> None:
    full = await client.call(MetadataRequest(topics=None), version)
    again = await client.call(MetadataRequest(topics=None), version)
    names = [name for name, _ in node.node.loader.image.topics.by_name.items()]
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    single = await client.call(asked, version)
    assert repr(full.topics) == repr(again.topics) == repr(single.topics)
    assert names


async def _create(client: WireClient, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    created = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert not only(created.topics).error_code
    while not (await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)).topics[0].partitions:
        pass


async def _coordinated(client: WireClient) -> None:
    await client.call(FindCoordinatorRequest(coordinator_keys=["group"]), 4)


def _groups(count: int) -> list[str]:
    return [f"group-{number:03}" for number in range(count)]
