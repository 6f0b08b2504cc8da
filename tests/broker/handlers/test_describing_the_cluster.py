"""Metadata, DescribeTopicPartitions, DescribeCluster and DescribeLogDirs describe the cluster's objects and their
places.
"""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult
from broker.wire.api.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, fetch, produce
from tests.support.running_node import NODE_ID, RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only


def named(*names: str, **fields: Any) -> MetadataRequest:
    """A Metadata request for these topics; it creates none unless `fields` say so."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, **{"allow_auto_topic_creation": False, **fields})


@pytest.mark.parametrize("version", range(14))
async def test_the_cluster_and_its_topics(node: RunningNode, client: WireClient, version: int) -> None:
    topic_id = await create_topic(client, partitions=2)

    response = await client.call(named("topic", allow_auto_topic_creation=version < 4), version)

    broker = only(response.brokers)
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (NODE_ID, "127.0.0.1", node.port, None)
    topic = only(response.topics)
    assert (topic.name, topic.error_code, topic.is_internal) == ("topic", 0, False)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, NODE_ID)
        assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([NODE_ID], [NODE_ID], [])
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    if version >= 1:
        assert response.controller_id == NODE_ID
    if version >= 2:
        assert response.cluster_id == node.node.cluster_id
        assert len(response.cluster_id) == 22
    if version >= 10:
        assert topic.topic_id == topic_id


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (9, None), (13, None)])
async def test_how_to_ask_for_all_topics(client: WireClient, version: int, topics: list[Any] | None) -> None:
    for name in ("one", "two"):
        await create_topic(client, name)

    response = await client.call(MetadataRequest(topics=topics), version)

    assert sorted(topic.name for topic in response.topics) == ["one", "two"]


@pytest.mark.parametrize("version", [1, 4, 9, 13])
async def test_how_to_ask_for_no_topic(client: WireClient, version: int) -> None:
    await create_topic(client)

    response = await client.call(MetadataRequest(topics=[]), version)

    assert response.topics == []
    assert only(response.brokers).node_id == NODE_ID


async def test_a_topic_that_is_named_twice_is_answered_once(client: WireClient) -> None:
    await create_topic(client)

    response = await client.call(named("topic", "other", "topic", "other"), 12)

    assert [topic.name for topic in response.topics] == ["topic", "other"]


async def test_topics_by_id(client: WireClient) -> None:
    """KIP-516."""
    topic_id = await create_topic(client)
    topics = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, bytes(15) + b"\1")]

    known, unknown = (await client.call(MetadataRequest(topics=topics), 12)).topics

    assert (known.name, known.topic_id, known.error_code, len(known.partitions)) == ("topic", topic_id, 0, 1)
    assert (unknown.name, unknown.topic_id) == (None, bytes(15) + b"\1")
    assert (unknown.error_code, unknown.partitions) == (ErrorCode.UNKNOWN_TOPIC_ID, [])


@pytest.mark.parametrize("topic", [{"name": "topic", "topic_id": bytes(15) + b"\1"}, {"name": None}])
@pytest.mark.parametrize("version", [10, 11])
async def test_ids_have_a_place_before_they_have_a_meaning(
    client: WireClient, version: int, topic: dict[str, Any]
) -> None:
    response = await client.call(MetadataRequest(topics=[MetadataRequestTopic(**topic)]), version)

    answer = only(response.topics)
    assert (answer.name, answer.error_code) == (topic["name"] or "", ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("n" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
@pytest.mark.parametrize("creates", [False, True])
async def test_topics_that_are_not_there(client: WireClient, name: str, code: ErrorCode, creates: bool) -> None:
    if creates and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        code = ErrorCode.NONE

    topic = only((await client.call(named(name, allow_auto_topic_creation=creates), 12)).topics)

    assert (topic.name, topic.error_code, len(topic.partitions)) == (name, code, int(code == 0))


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
async def test_topics_are_created_by_asking_for_them(tmp_path: Path, version: int) -> None:
    """`auto.create.topics.enable`, with `num.partitions`; before version 4, clients could not opt out."""
    async with running_node(tmp_path, num_partitions=3) as node, connected(node.port) as client:
        response = await client.call(named("new", "newer", allow_auto_topic_creation=True), version)

        assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
            ("new", 0, 3),
            ("newer", 0, 3),
        ]
        assert (await produce(client, batch(b"value"), topic="new", index=2)).error_code == 0


async def test_no_topic_is_created_by_asking_where_that_is_disabled(tmp_path: Path) -> None:
    async with running_node(tmp_path, auto_create_topics_enable="false") as node, connected(node.port) as client:
        for _ in range(2):
            topic = only((await client.call(named("new", allow_auto_topic_creation=True), 9)).topics)
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_asking_for_all_topics_or_for_an_id_creates_none(client: WireClient) -> None:
    await client.call(MetadataRequest(topics=None), 12)
    topics = [MetadataRequestTopic(name=None, topic_id=bytes(15) + b"\1"), MetadataRequestTopic(name="new")]
    await client.call(MetadataRequest(topics=topics), 12)

    assert (await client.call(MetadataRequest(topics=None), 12)).topics == []


async def test_internal_topics_say_so_and_are_not_created_by_asking(client: WireClient) -> None:
    name = "__consumer_offsets"
    absent = only((await client.call(named(name, allow_auto_topic_creation=True), 12)).topics)
    await create_topic(client, name)
    present = only((await client.call(named(name), 12)).topics)

    assert (absent.error_code, absent.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    assert (present.error_code, present.is_internal) == (0, True)


async def test_a_created_topic_is_there_for_the_next_request_in_the_same_write(client: WireClient) -> None:
    await client.pipeline(
        (named("new", allow_auto_topic_creation=True), 9), (named("new"), 9), (MetadataRequest(topics=None), 9)
    )

    for _ in range(3):
        assert only((await client.receive()).topics).error_code == 0


# DescribeTopicPartitions (KIP-966)


def pages(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


async def describe(client: WireClient, request: DescribeTopicPartitionsRequest) -> tuple[list[Any], Any]:
    """The topics with their partitions or their error, and the cursor."""
    response = await client.call(request, 0)
    topics = [
        (topic.name, topic.error_code or [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]
    cursor = response.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def test_topics_are_described_in_order(client: WireClient) -> None:
    for name, count in (("b", 2), ("a", 1), ("c", 1)):
        await create_topic(client, name, partitions=count)

    assert await describe(client, pages()) == ([("a", [0]), ("b", [0, 1]), ("c", [0])], None)
    assert await describe(client, pages("c", "b", "x", "a b")) == (
        [
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("b", [0, 1]),
            ("c", [0]),
            ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
        None,
    )


async def test_a_description_of_a_partition(client: WireClient) -> None:
    topic_id = await create_topic(client)

    topic = only((await client.call(pages("topic"), 0)).topics)

    partition = only(topic.partitions)
    assert (topic.topic_id, topic.is_internal) == (topic_id, False)
    assert (partition.leader_id, partition.leader_epoch) == (NODE_ID, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([NODE_ID], [NODE_ID], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


async def test_many_partitions_come_in_pages(client: WireClient) -> None:
    for name, count in (("a", 3), ("b", 2), ("c", 1)):
        await create_topic(client, name, partitions=count)

    found, cursor = await describe(client, pages(limit=2))
    read = list(found)
    while cursor is not None:
        found, cursor = await describe(client, pages(limit=2, cursor=cursor))
        read += found

    assert read == [("a", [0, 1]), ("a", [2]), ("b", [0]), ("b", [1]), ("c", [0])]


@pytest.mark.parametrize(("limit", "cursor"), [(3, ("b", 0)), (2, ("a", 2)), (0, ("a", 1)), (-1, ("a", 1)), (4, None)])
async def test_the_cursor_says_where_to_go_on(client: WireClient, limit: int, cursor: tuple[str, int] | None) -> None:
    await create_topic(client, "a", partitions=3)
    await create_topic(client, "b")

    assert (await describe(client, pages(limit=limit)))[1] == cursor


async def test_the_broker_limits_the_page_too(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, max_request_partition_size_limit=2) as node,
        connected(node.port) as client,
    ):
        await create_topic(client, partitions=3)

        assert await describe(client, pages()) == ([("topic", [0, 1])], ("topic", 2))


@pytest.mark.parametrize("cursor", [("topic", -1), ("elsewhere", 0)])
async def test_a_cursor_that_no_answer_gave_is_refused(client: WireClient, cursor: tuple[str, int]) -> None:
    await create_topic(client)

    assert await describe(client, pages("topic", cursor=cursor)) == ([("topic", ErrorCode.INVALID_REQUEST)], None)


# DescribeCluster (KIP-700)


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster(node: RunningNode, client: WireClient, version: int) -> None:
    response = await client.call(DescribeClusterRequest(), version)

    broker = only(response.brokers)
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.cluster_id, response.controller_id) == (node.node.cluster_id, NODE_ID)
    assert (broker.broker_id, broker.host, broker.port) == (NODE_ID, "127.0.0.1", node.port)
    assert not broker.is_fenced


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7"),
    ],
)
async def test_a_broker_does_not_describe_controllers(
    client: WireClient, endpoint_type: int, code: ErrorCode, message: str
) -> None:
    """KIP-919."""
    response = await client.call(DescribeClusterRequest(endpoint_type=endpoint_type), 1)

    assert (response.error_code, response.error_message, response.brokers) == (code, message, [])


# DescribeLogDirs (KIP-113)


@pytest.mark.parametrize("version", range(1, 6))
async def test_log_directories_and_their_replicas(tmp_path: Path, version: int) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    async with running_node(tmp_path, log_dirs=",".join(paths)) as node, connected(node.port) as client:
        await create_topic(client, partitions=4)
        await produce(client, batch(bytes(1000)), index=2)
        size = len((await fetch(client, indexes=[2])).records)

        response = await client.call(DescribeLogDirsRequest(topics=None), version)

        assert [result.log_dir for result in response.results] == paths
        sizes = {}
        for result in response.results:
            partitions = only(result.topics).partitions
            assert len(partitions) == 2  # new partitions go to the directory with the fewest
            sizes |= {each.partition_index: each.partition_size for each in partitions}
            assert (result.error_code, result.is_cordoned) == (0, False)
            assert not any(each.is_future_key or each.offset_lag for each in partitions)
            if version >= 4:
                assert 0 < result.usable_bytes <= result.total_bytes
        assert sizes == {0: 0, 1: 0, 2: size, 3: 0}


async def test_cordoned_directories_get_no_new_partitions_kip_1066(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    settings = {"log_dirs": ",".join(paths), "cordoned_log_dirs": paths[0]}
    async with running_node(tmp_path, **settings) as node, connected(node.port) as client:
        found: list[DescribeLogDirsResult] = []
        with trio.fail_after(10):
            while [result.is_cordoned for result in found] != [True, False]:
                found = (await client.call(DescribeLogDirsRequest(topics=None), 5)).results
        await create_topic(client, partitions=3)
        found = (await client.call(DescribeLogDirsRequest(topics=None), 5)).results
        assert [sum(len(topic.partitions) for topic in result.topics) for result in found] == [0, 3]


async def test_only_the_partitions_that_are_asked_for_are_described(client: WireClient) -> None:
    await create_topic(client, partitions=3)
    await create_topic(client, "other")
    topics = [
        DescribableLogDirTopic(topic="topic", partitions=[2, 7]),
        DescribableLogDirTopic(topic="x", partitions=[0]),
    ]

    result = only((await client.call(DescribeLogDirsRequest(topics=topics), 4)).results)

    topic = only(result.topics)
    assert (topic.name, [each.partition_index for each in topic.partitions]) == ("topic", [2])


# READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS.
ALL_OF_A_TOPIC = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11
# CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS and IDEMPOTENT_WRITE.
ALL_OF_THE_CLUSTER = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
NOT_ASKED_FOR = -(2**31)


async def test_without_an_authorizer_everything_is_authorized(client: WireClient) -> None:
    """KIP-430."""
    await create_topic(client)

    silent = await client.call(named("topic"), 9)
    assert silent.cluster_authorized_operations == NOT_ASKED_FOR
    assert only(silent.topics).topic_authorized_operations == NOT_ASKED_FOR

    asked = named(
        "topic", "missing", include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    told = await client.call(asked, 9)
    assert told.cluster_authorized_operations == ALL_OF_THE_CLUSTER
    assert [topic.topic_authorized_operations for topic in told.topics] == [ALL_OF_A_TOPIC, ALL_OF_A_TOPIC]

    names = [TopicRequest(name="missing"), TopicRequest(name="topic")]
    described = await client.call(DescribeTopicPartitionsRequest(topics=names), 0)
    assert [topic.topic_authorized_operations for topic in described.topics] == [ALL_OF_A_TOPIC, ALL_OF_A_TOPIC]

    cluster = await client.call(DescribeClusterRequest(), 1)
    assert cluster.cluster_authorized_operations == NOT_ASKED_FOR
    cluster = await client.call(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert cluster.cluster_authorized_operations == ALL_OF_THE_CLUSTER
