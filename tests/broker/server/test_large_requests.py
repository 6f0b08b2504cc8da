"""Large requests are answered like small ones: duplicates once, everything in order, in slices."""

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.replication.partition import Partition
from broker.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
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
    OffsetFetchRequestTopics,
)
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, fetch, fetch_request, produce, records_of
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

TOPIC, BROKER = 2, 4
FOREVER_MS = 600_000
MANY_PARTITIONS = 300


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


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_large_produce_appends_to_every_partition_and_keeps_the_order_of_requests(
    tmp_path: Path, acks: int
) -> None:
    """Its records are in the receive buffer, into which the connection's next requests are read."""
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _create_led(client, "wide", MANY_PARTITIONS)
        for round_ in range(3):
            datas = [
                PartitionProduceData(index=index, records=batch(b"%d of %d" % (round_, index)))
                for index in range(MANY_PARTITIONS)
            ]
            topic = TopicProduceData(name="wide", partition_data=datas)
            request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])
            await (client.send if acks else client.send_unanswered)(request, 12)
        for round_ in range(3 if acks else 0):
            answers = only((await client.receive()).responses).partition_responses
            assert [answer.index for answer in answers] == list(range(MANY_PARTITIONS))
            assert {(answer.error_code, answer.base_offset) for answer in answers} == {(0, round_)}
        for index in (0, 100, MANY_PARTITIONS - 1):
            found = await fetch(client, topic="wide", indexes=[index], min_bytes=0)
            values = [record.value for record in records_of(found)]
            assert values == [b"%d of %d" % (round_, index) for round_ in range(3)]


async def test_large_produce_with_acks_0_closes_the_connection_for_one_unknown_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _create_led(client, "wide", MANY_PARTITIONS)
        datas = [PartitionProduceData(index=index, records=batch(b"value")) for index in range(MANY_PARTITIONS + 1)]
        topic = TopicProduceData(name="wide", partition_data=datas)
        await client.send_unanswered(ProduceRequest(acks=0, timeout_ms=10_000, topic_data=[topic]), 12)
        await client.expect_close()


@pytest.mark.parametrize("fields", [{"max_wait_ms": 0}, {"max_wait_ms": 100, "min_bytes": 10_000}])
async def test_large_fetch_answers_every_partition_in_order(tmp_path: Path, fields: dict[str, int]) -> None:
    """Both at once, and after a wait without new records."""
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _create_led(client, "wide", MANY_PARTITIONS)
        for index in (3, MANY_PARTITIONS - 1):
            await produce(client, batch(b"value"), topic="wide", index=index)
        answered = only((await client.call(_large_fetch(**fields), 12)).responses)
        assert [each.partition_index for each in answered.partitions] == list(range(MANY_PARTITIONS))
        assert {each.error_code for each in answered.partitions} == {ErrorCode.NONE}
        read = {each.partition_index: records_of(each) for each in answered.partitions if each.records}
        assert read.keys() == {3, MANY_PARTITIONS - 1}
        assert not any(partition.waiters.for_high_watermark for partition in _partitions(node))


async def test_large_fetch_that_waits_is_answered_after_an_append(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client, connected(node.port) as producer:
        await _create_led(client, "wide", MANY_PARTITIONS)
        await client.send(_large_fetch(max_wait_ms=FOREVER_MS), 12)
        await client.expect_silence(0.05)
        await produce(producer, batch(b"value"), topic="wide", index=7)
        answered = only((await client.receive()).responses).partitions
        assert len(answered) == MANY_PARTITIONS
        assert [record.value for record in records_of(answered[7])] == [b"value"]
        assert not any(partition.waiters.for_high_watermark for partition in _partitions(node))


async def test_large_fetch_keeps_no_request_while_it_waits(tmp_path: Path) -> None:
    """A request of 2 MB takes ten times as much when it is decoded."""
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _create_led(client, "wide", MANY_PARTITIONS)
        await client.send(_large_fetch(max_wait_ms=FOREVER_MS), 12)
        with trio.fail_after(10):
            while not all(partition.waiters.for_high_watermark for partition in _partitions(node)):
                await trio.sleep(0.01)
        gc.collect()
        assert not any(isinstance(each, FetchPartition) for each in gc.get_objects())


async def test_large_fetch_session_returns_changes_and_ends(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client, connected(node.port) as producer:
        await _create_led(client, "wide", MANY_PARTITIONS)
        opened = await client.call(_large_fetch(session_epoch=0), 12)
        assert len(only(opened.responses).partitions) == MANY_PARTITIONS
        assert all(partition.waiters.for_high_watermark for partition in _partitions(node))
        await client.send(_go_on(opened.session_id, 1), 12)
        await client.expect_silence(0.05)
        await produce(producer, batch(b"value"), topic="wide", index=7)
        told = only(only((await client.receive()).responses).partitions)
        assert told.partition_index == 7
        many = _large_fetch(session_id=opened.session_id, session_epoch=2)
        many.topics[0].partitions[7].fetch_offset = 1
        assert not (await client.call(many, 12)).responses
        await client.call(_go_on(opened.session_id, -1), 12)
        refused = await client.call(_go_on(opened.session_id, 3), 12)
        assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert not any(partition.waiters.for_high_watermark for partition in _partitions(node))


async def test_large_fetch_forgets_all_topics_that_it_names(tmp_path: Path) -> None:
    """KIP-227; before the fix, of more than 256 forgotten topics, the last ones stayed in the session."""
    names = [f"topic-{number:03}" for number in range(MANY_PARTITIONS)]
    topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0)]) for name in names]
    async with running_node(tmp_path) as node, connected(node.port) as client:
        opened = await client.call(FetchRequest(topics=topics, session_epoch=0), 12)
        assert len(opened.responses) == MANY_PARTITIONS
        forgotten = [ForgottenTopic(topic=name, partitions=[0]) for name in names[:-1]]
        request = FetchRequest(session_id=opened.session_id, session_epoch=1, forgotten_topics_data=forgotten)
        assert [told.topic for told in (await client.call(request, 12)).responses] == names[-1:]


async def test_large_fetch_lets_go_of_its_partitions_when_its_connection_closes(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        async with connected(node.port) as client:
            await _create_led(client, "wide", MANY_PARTITIONS)
            await client.send(_large_fetch(max_wait_ms=FOREVER_MS), 12)
            await client.expect_silence(0.05)
        with trio.fail_after(10):
            while any(partition.waiters.for_high_watermark for partition in _partitions(node)):
                await trio.sleep(0.01)
        assert not node.traced.of("handler_failed")


async def test_large_offset_delete_answers_every_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _coordinated(client)
        await _create(client, "wide", MANY_PARTITIONS)
        await _commit(client, range(MANY_PARTITIONS))
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(MANY_PARTITIONS + 1)]
        topic = OffsetDeleteRequestTopic(name="wide", partitions=partitions)
        request = OffsetDeleteRequest(group_id="group", topics=[topic])
        deleted = only((await client.call(request, 0)).topics).partitions
        assert [each.partition_index for each in deleted] == list(range(MANY_PARTITIONS + 1))
        codes = [each.error_code for each in deleted]
        assert codes == [ErrorCode.NONE] * MANY_PARTITIONS + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        again = await client.call(request, 0)
        assert (again.error_code, again.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [2, 7, 8, 10])
async def test_offset_fetch_of_all_tells_of_every_partition(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _coordinated(client)
        await _create(client, "wide", MANY_PARTITIONS)
        await _commit(client, range(0, MANY_PARTITIONS, 2))
        groups = [OffsetFetchRequestGroup(group_id="group", topics=None)]
        request = OffsetFetchRequest(group_id="group", topics=None, groups=groups)
        response = await client.call(request, version)
        topic = only((only(response.groups) if version >= 8 else response).topics)
        told = {each.partition_index: each.committed_offset for each in topic.partitions}
        assert told == {index: index for index in range(0, MANY_PARTITIONS, 2)}


async def test_list_groups_with_thousands_of_filters_finds_a_group(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _coordinated(client)
        await _create(client, "wide", 1)
        await _commit(client, [0])
        filters = [f"state-{number}" for number in range(4_000)]
        assert not (await client.call(ListGroupsRequest(states_filter=filters), 5)).groups
        listed = await client.call(ListGroupsRequest(states_filter=[*filters, "EMPTY"]), 5)
        assert only(listed.groups).group_id == "group"


async def test_large_delete_records_answers_every_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await _create_led(client, "wide", MANY_PARTITIONS)
        await produce(client, batch(b"value"), topic="wide", index=7)
        partitions = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(MANY_PARTITIONS + 1)]
        topic = DeleteRecordsTopic(name="wide", partitions=partitions)
        deleted = only((await client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)).topics)
        marks = {each.partition_index: each.low_watermark for each in deleted.partitions}
        assert marks == dict.fromkeys(range(MANY_PARTITIONS), 0) | {7: 1, MANY_PARTITIONS: -1}


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
    """The cached encoding is that of the image, after a topic is created, grown or deleted."""
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


async def _create_led(client: WireClient, name: str, partitions: int) -> None:
    """Create a topic, and wait until the broker has created the logs of all partitions."""
    await _create(client, name, partitions)
    while any(
        each.error_code for each in only((await client.call(_large_fetch(max_wait_ms=0), 12)).responses).partitions
    ):
        pass


def _go_on(session_id: int, epoch: int) -> FetchRequest:
    return FetchRequest(session_id=session_id, session_epoch=epoch, max_wait_ms=FOREVER_MS, min_bytes=1)


def _partitions(node: RunningNode) -> list[Partition]:
    broker = node.node.broker
    assert broker is not None
    topic = broker.partitions.topic("wide")
    assert topic is not None
    return list(topic.partitions.values())


def _large_fetch(**fields: Any) -> FetchRequest:
    return fetch_request(topic="wide", indexes=range(MANY_PARTITIONS), **fields)


async def _commit(client: WireClient, indexes: Iterable[int]) -> None:
    """Commit, for each partition, its own index as the offset."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
        for index in indexes
    ]
    topic = OffsetCommitRequestTopic(name="wide", partitions=partitions)
    committed = await client.call(OffsetCommitRequest(group_id="group", topics=[topic]), 8)
    assert not any(each.error_code for each in only(committed.topics).partitions)


async def _coordinated(client: WireClient) -> None:
    await client.call(FindCoordinatorRequest(coordinator_keys=["group"]), 4)


def _groups(count: int) -> list[str]:
    return [f"group-{number:03}" for number in range(count)]
