"""Topics and groups that a client may not describe are left out, or refused without telling whether they exist."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from broker.wire.api.envelope import EnvelopeRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.api.list_transactions import ListTransactionsRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.codec import decode, encode
from broker.wire.errors import ErrorCode
from broker.wire.header import encode_request_header, parse_response_header
from metadata.protocol import AclOperation as Op
from metadata.protocol import AclPermission, ResourceType
from tests.support.acl_client import CLIENT_HOST, AclAdmin, connected_from, node_with_acls
from tests.support.authorization_table import CLUSTER, GROUP, TOPIC, Right, on_cluster
from tests.support.linux import needs_loopback_addresses
from tests.support.requests import batch, create_topic
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, only

pytestmark = needs_loopback_addresses

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_ASKED = -(2**31)
DESCRIBE_SEEN = Right(Op.DESCRIBE, TOPIC, "seen")


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[tuple[RunningNode, AclAdmin, WireClient]]:
    async with node_with_acls(tmp_path) as (node, admin), connected_from(CLIENT_HOST, node.port) as client:
        yield node, admin, client


@pytest.fixture
def admin(started: tuple[RunningNode, AclAdmin, WireClient]) -> AclAdmin:
    return started[1]


@pytest.fixture
def client(started: tuple[RunningNode, AclAdmin, WireClient]) -> WireClient:
    return started[2]


def bits(*operations: Op) -> int:
    return sum(1 << operation for operation in operations)


async def metadata(client: WireClient, *names: str, version: int = 12, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names] or None
    return await client.call(MetadataRequest(topics=topics, **fields), version)


async def test_metadata_of_all_topics_has_those_that_the_client_may_describe(
    admin: AclAdmin, client: WireClient
) -> None:
    for name in ("seen", "hidden"):
        await create_topic(admin.client, name)
    assert (await metadata(client)).topics == []
    await admin.grant([DESCRIBE_SEEN])
    assert [topic.name for topic in (await metadata(client)).topics] == ["seen"]
    await admin.grant([Right(Op.READ, TOPIC, "hidden")])
    assert {topic.name for topic in (await metadata(client)).topics} == {"seen", "hidden"}
    asked = await metadata(client, include_topic_authorized_operations=True)
    assert {topic.name: topic.topic_authorized_operations for topic in asked.topics} == {
        "seen": bits(Op.DESCRIBE),
        "hidden": bits(Op.READ, Op.DESCRIBE),
    }


async def test_named_topics_are_refused_whether_they_exist_or_not(admin: AclAdmin, client: WireClient) -> None:
    topic_id = await create_topic(admin.client, "hidden")
    response = await metadata(client, "hidden", "none", include_topic_authorized_operations=True)
    assert [(each.error_code, each.topic_id, each.topic_authorized_operations) for each in response.topics] == [
        (REFUSED, bytes(16), NOT_ASKED)
    ] * 2
    by_id = await client.call(
        MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, b"n" * 16)]), 12
    )
    assert [(each.error_code, each.name) for each in by_id.topics] == [
        (REFUSED, None),
        (ErrorCode.UNKNOWN_TOPIC_ID, None),
    ]


@pytest.mark.parametrize("right", [Right(Op.CREATE, TOPIC, "new"), on_cluster(Op.CREATE)])
async def test_topics_are_created_for_clients_that_may_create_them(
    admin: AclAdmin, client: WireClient, right: Right
) -> None:
    await admin.grant([Right(Op.DESCRIBE, TOPIC, "new")])
    assert only((await metadata(client, "new")).topics).error_code == REFUSED
    await admin.grant([right])
    assert only((await metadata(client, "new")).topics).error_code == ErrorCode.NONE


async def test_authorized_operations_on_the_cluster_need_describe(admin: AclAdmin, client: WireClient) -> None:
    await admin.grant([on_cluster(Op.CREATE)])
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await client.call(request, 1)).cluster_authorized_operations == 0
    await admin.grant([on_cluster(Op.DESCRIBE)])
    wanted = bits(Op.CREATE, Op.DESCRIBE)
    assert (await client.call(request, 1)).cluster_authorized_operations == wanted
    assert (await client.call(DescribeClusterRequest(), 1)).cluster_authorized_operations == NOT_ASKED
    asked = await metadata(client, "seen", version=8, include_cluster_authorized_operations=True)
    assert asked.cluster_authorized_operations == wanted


async def test_pages_of_topics_have_those_that_the_client_may_describe(admin: AclAdmin, client: WireClient) -> None:
    for name in ("a-hidden", "seen", "t-hidden"):
        await create_topic(admin.client, name)
    await admin.grant([DESCRIBE_SEEN])
    every = await client.call(DescribeTopicPartitionsRequest(), 0)
    assert [(topic.name, topic.topic_authorized_operations) for topic in every.topics] == [("seen", bits(Op.DESCRIBE))]
    named = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in ("a-hidden", "none", "seen")])
    assert {
        topic.name: (topic.error_code, topic.topic_id == bytes(16), topic.topic_authorized_operations)
        for topic in (await client.call(named, 0)).topics
    } == {
        "a-hidden": (REFUSED, True, NOT_ASKED),
        "none": (REFUSED, True, NOT_ASKED),
        "seen": (ErrorCode.NONE, False, bits(Op.DESCRIBE)),
    }


async def commit(client: WireClient, group: str, *topics: str) -> None:
    named = [OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition()]) for name in topics]
    response = await client.call(OffsetCommitRequest(group_id=group, topics=named), 8)
    assert {each.error_code for topic in response.topics for each in topic.partitions} == {0}


async def test_groups_and_their_offsets(admin: AclAdmin, client: WireClient) -> None:
    """Creating the topic of a coordinator needs no right of the client that looks for it."""
    await admin.grant([Right(Op.DESCRIBE, GROUP, "g")])
    found = await client.call(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    assert [each.error_code for each in found.coordinators] == [0, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    for name in ("seen", "hidden"):
        await create_topic(admin.client, name)
    for group in ("g", "h"):
        await commit(admin.client, group, "seen", "hidden")
    assert [each.group_id for each in (await client.call(ListGroupsRequest(), 4)).groups] == ["g"]
    described = await client.call(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5)
    assert only(described.groups).authorized_operations == bits(Op.DESCRIBE)

    await admin.grant([DESCRIBE_SEEN])
    every = await client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8)
    assert [topic.name for topic in only(every.groups).topics] == ["seen"]
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("seen", "hidden")]
    named = await client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)]), 8)
    assert {topic.name: only(topic.partitions).error_code for topic in only(named.groups).topics} == {
        "seen": 0,
        "hidden": REFUSED,
    }
    await admin.grant([on_cluster(Op.DESCRIBE)])
    assert {each.group_id for each in (await client.call(ListGroupsRequest(), 4)).groups} == {"g", "h"}


async def test_offsets_by_topic_id_of_topics_that_the_client_may_not_read(admin: AclAdmin, client: WireClient) -> None:
    topic_id = await create_topic(admin.client, "hidden")
    await admin.client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    await admin.grant([Right(Op.READ, GROUP, "g")])
    topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=[OffsetCommitRequestPartition()])
    response = await client.call(OffsetCommitRequest(group_id="g", topics=[topic]), 10)
    assert only(only(response.topics).partitions).error_code == REFUSED


async def test_regular_expression_matches_topics_that_the_member_may_describe(
    admin: AclAdmin, client: WireClient
) -> None:
    seen = await create_topic(admin.client, "seen")
    await create_topic(admin.client, "hidden")
    await admin.client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    await admin.grant([Right(Op.READ, GROUP, "g"), DESCRIBE_SEEN])
    joins = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="member",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[],
        subscribed_topic_regex="seen|hidden",
        topic_partitions=[],
    )
    response = await client.call(joins, 1)
    assert [topic.topic_id for topic in response.assignment.topic_partitions] == [seen]


async def test_created_topics_tell_their_configs_to_clients_that_may_describe_them(
    admin: AclAdmin, client: WireClient
) -> None:
    await admin.grant([Right(Op.CREATE, TOPIC, "a"), Right(Op.CREATE, TOPIC, "b")])
    await admin.grant([Right(Op.DESCRIBE_CONFIGS, TOPIC, "b")])
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b", "c")]
    response = await client.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    a, b, c = (next(topic for topic in response.topics if topic.name == name) for name in ("a", "b", "c"))
    assert (a.error_code, a.topic_config_error_code, a.num_partitions, a.configs) == (0, REFUSED, -1, [])
    assert (b.error_code, b.topic_config_error_code, b.num_partitions, bool(b.configs)) == (0, 0, 1, True)
    assert (c.error_code, c.error_message) == (REFUSED, "Authorization failed.")


async def test_deletion_tells_no_names_by_ids(admin: AclAdmin, client: WireClient) -> None:
    hidden = await create_topic(admin.client, "hidden")
    seen = await create_topic(admin.client, "seen")
    gone = await create_topic(admin.client, "gone")
    await admin.grant([DESCRIBE_SEEN, Right(Op.DESCRIBE, TOPIC, "none"), Right(Op.DELETE, TOPIC, "gone")])
    named = [DeleteTopicState(name=None, topic_id=each) for each in (hidden, seen, gone, b"n" * 16)]
    named += [DeleteTopicState(name=name) for name in ("hidden", "none", "unknown")]
    response = await client.call(DeleteTopicsRequest(topics=named, timeout_ms=5000), 6)
    assert {(each.name, each.topic_id): each.error_code for each in response.responses} == {
        (None, hidden): REFUSED,
        ("seen", seen): REFUSED,
        ("gone", gone): ErrorCode.NONE,
        (None, b"n" * 16): ErrorCode.UNKNOWN_TOPIC_ID,
        ("hidden", bytes(16)): REFUSED,
        ("none", bytes(16)): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("unknown", bytes(16)): REFUSED,
    }


async def test_listed_transactions_are_those_that_the_client_may_describe(admin: AclAdmin, client: WireClient) -> None:
    topic = AddPartitionsToTxnTopic(name="topic", partitions=[0])
    await admin.client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 4)
    assert (await client.call(ListTransactionsRequest(), 0)).transaction_states == []
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=[topic])
    refused = only((await client.call(request, 3)).results_by_topic_v3_and_below)
    assert only(refused.results_by_partition).partition_error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [9, 12, 13])
async def test_shortcut_of_produce_ends_with_an_entry(admin: AclAdmin, client: WireClient, version: int) -> None:
    """KIP-290: a prefix that denies wins over a name that allows."""
    topic_id = await create_topic(admin.client, "orders")
    await admin.grant([Right(Op.WRITE, TOPIC, "orders")])
    data = PartitionProduceData(index=0, records=batch(b"value"))
    topic = TopicProduceData(name="orders", topic_id=topic_id, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])

    async def code() -> ErrorCode:
        answer = only(only((await client.call(request, version)).responses).partition_responses)
        return ErrorCode(answer.error_code)

    for _ in range(4):
        assert await code() is ErrorCode.NONE
    await admin.grant([Right(Op.ALL, TOPIC, "orders")], AclPermission.DENY)
    for _ in range(2):
        assert await code() is REFUSED
    await admin.set([Right(Op.WRITE, TOPIC, "orders")])
    assert await code() is ErrorCode.NONE


async def test_refusal_is_traced_once_for_a_tried_operation(
    started: tuple[RunningNode, AclAdmin, WireClient],
) -> None:
    node, admin, client = started
    await create_topic(admin.client, "hidden")
    await metadata(client)
    await client.call(ListGroupsRequest(), 4)
    assert node.traced.of("authorization_refused") == []
    await metadata(client, "hidden")
    assert node.traced.of("authorization_refused") == [
        {
            "principal": "User:ANONYMOUS",
            "host": CLIENT_HOST,
            "listener": "PLAINTEXT",
            "operation": "DESCRIBE",
            "resource_type": "TOPIC",
            "resource": "hidden",
            "request": "Metadata (API 3)",
        }
    ]


async def test_kip_590_envelope_is_decided_for_its_client(started: tuple[RunningNode, AclAdmin, WireClient]) -> None:
    """The node that forwards has to be allowed to act for the cluster, and the client to do what it asks for."""
    node, admin, _ = started
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    data = encode_request_header(19, 7, 1, "client") + b"".join(map(bytes, encode(request, 7)))

    async def forward(principal: bytes, host: bytes) -> tuple[int, list[int]]:
        envelope = EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)
        response = await controller.call(envelope, 0)
        if response.error_code:
            return response.error_code, []
        _, start = parse_response_header(response.response_data, True)
        created, _ = decode(CreateTopicsResponse, 7, response.response_data, start)
        return 0, [each.error_code for each in created.topics]

    async with connected_from(CLIENT_HOST, node.controller_port) as controller:
        assert await forward(b"User:ANONYMOUS", bytes([127, 0, 0, 2])) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        await admin.grant([Right(Op.CLUSTER_ACTION, CLUSTER, "kafka-cluster")])
        assert await forward(b"User:bob", bytes([127, 0, 0, 3])) == (0, [REFUSED])
        assert await forward(b"User:ANONYMOUS", bytes([127, 0, 0, 2])) == (0, [0])


def test_resource_types_are_those_of_kafka() -> None:
    assert [kind.name for kind in ResourceType][2:] == [
        "TOPIC",
        "GROUP",
        "CLUSTER",
        "TRANSACTIONAL_ID",
        "DELEGATION_TOKEN",
        "USER",
    ]
