"""An Admin's routing and retries, with a node that answers from a script, and with older brokers."""

import socket

import pytest
import trio

from broker.client import (
    Admin,
    ClosedError,
    KafkaError,
    NewTopic,
    OffsetSpec,
    TimedOut,
    TopicPartition,
    UnsupportedByBroker,
)
from broker.client.admin import routing
from broker.wire.api.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from broker.wire.api.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from broker.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
)
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from broker.wire.consumer_protocol import ConsumerProtocolAssignment, OwnedPartitions, encode_assignment
from broker.wire.errors import ErrorCode
from tests.support.disagreeing_brokers import KnownTopic, disagreeing_brokers
from tests.support.scripted_admin import FAST, admin_of, metadata

P0 = TopicPartition("orders", 0)


def created(**codes: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=code) for name, code in codes.items()]
    )


async def test_only_the_items_without_an_answer_are_asked_about_again() -> None:
    answers = [
        created(a=ErrorCode.NOT_CONTROLLER, b=0, c=ErrorCode.POLICY_VIOLATION),
        created(a=ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        created(a=0),
    ]
    async with admin_of({CreateTopicsRequest: lambda _: answers.pop(0)}) as (node, admin):
        results = await admin.create_topics([NewTopic("a", 1), NewTopic("b", 1), NewTopic("c", 1)])
        assert list(results) == ["a", "b", "c"]
        assert list(results.succeeded) == ["a", "b"]
        asked = [request for request in node.requests if isinstance(request, CreateTopicsRequest)]
        assert [[topic.name for topic in request.topics] for request in asked] == [["a", "b", "c"], ["a"], ["a"]]
        longest_ms = FAST["request.timeout.ms"]
        assert all(longest_ms / 2 < request.timeout_ms < longest_ms for request in asked)


@pytest.mark.parametrize("is_late", [False, True])
async def test_outcomes_of_brokers_that_answer_are_kept_while_another_broker_is_silent(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it `is_late`, the deadline comes before the call has given up the silent broker, as on a busy machine."""
    if is_late:
        monkeypatch.setattr(routing, "_NODES_SHARE", 2)

    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        partition = ListOffsetsPartitionResponse(partition_index=0, offset=3)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[partition])])

    def with_silent_leader(request: MetadataRequest) -> MetadataResponse:
        told = metadata(node, [topic.name or "" for topic in request.topics or ()])
        told.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=silent_port))
        for topic in told.topics:
            topic.partitions.append(MetadataResponsePartition(partition_index=1, leader_id=2, leader_epoch=0))
        return told

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_port = silent.getsockname()[1]
        async with admin_of({ListOffsetsRequest: answer, MetadataRequest: with_silent_leader}) as (node, admin):
            p1 = TopicPartition("orders", 1)
            results = await admin.list_offsets({P0: OffsetSpec.LATEST, p1: OffsetSpec.LATEST}, timeout_ms=1_000)
            assert list(results.succeeded) == [P0]
            assert isinstance(results[p1], TimedOut)
            assert "broker 2" in str(results[p1])


async def test_an_item_that_the_response_leaves_out_has_an_error() -> None:
    async with admin_of({CreateTopicsRequest: lambda _: created(a=0)}) as (_, admin):
        results = await admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
        assert list(results.succeeded) == ["a"]
        assert "does not mention 'b'" in str(results["b"])


async def test_items_without_an_answer_at_the_deadline_time_out_with_their_last_error() -> None:
    def answer(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return created(**{topic.name: ErrorCode.NOT_CONTROLLER if topic.name == "a" else 0 for topic in request.topics})

    async with admin_of({CreateTopicsRequest: answer}) as (_, admin):
        results = await admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)], timeout_ms=1_000)
        assert list(results.succeeded) == ["b"]
        late = results["a"]
        assert isinstance(late, TimedOut)
        assert isinstance(late.__cause__, KafkaError)
        with pytest.raises(TimedOut, match="NOT_CONTROLLER"):
            await admin.create_topics([NewTopic("a", 1)], timeout_ms=500)


async def test_a_call_whose_connection_breaks_is_sent_again() -> None:
    answers = [b"\0\0\0\1?", created(a=0)]  # the first is not a valid response
    async with admin_of({CreateTopicsRequest: lambda _: answers.pop(0)}) as (node, admin):
        (await admin.create_topics([NewTopic("a", 1)])).raise_first()
        assert node.connections > 1


async def test_a_broker_that_does_not_advance_its_cursor_is_not_followed_for_ever() -> None:
    page = DescribeTopicPartitionsResponse(next_cursor=Cursor(topic_name="orders", partition_index=5))
    async with admin_of({DescribeTopicPartitionsRequest: lambda _: page}) as (_, admin):
        with pytest.raises(TimedOut, match="keeps describing the same partitions"):
            await admin.describe_topics(["orders"], timeout_ms=1_000)


async def test_a_topic_is_missing_only_if_every_broker_says_so() -> None:
    """The broker that is asked first lags behind: it does not know the topic yet."""
    known = {"orders": KnownTopic(b"o" * 16, partitions=3)}
    async with disagreeing_brokers({}, known) as [lagging, _], Admin(lagging.address, config=FAST) as admin:
        assert len((await admin.describe_topics(["orders"])).value("orders").partitions) == 3
        assert (await admin.describe_topics([b"o" * 16])).value(b"o" * 16).name == "orders"
        known.clear()
        for topic, code in [("orders", "UNKNOWN_TOPIC_OR_PARTITION"), (b"o" * 16, "UNKNOWN_TOPIC_ID")]:
            with pytest.raises(KafkaError, match=code):
                (await admin.describe_topics([topic])).raise_first()


async def test_leaders_are_looked_up_again_after_not_leader() -> None:
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NONE]

    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        partition = ListOffsetsPartitionResponse(error_code=codes.pop(0), offset=3)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[partition])])

    async with admin_of({ListOffsetsRequest: answer}) as (node, admin):
        found = (await admin.list_offsets({P0: OffsetSpec.LATEST})).value(P0)
        assert found is not None
        assert found.offset == 3
        assert len([request for request in node.requests if isinstance(request, MetadataRequest)]) >= 3


async def test_a_partition_without_a_leader_times_out_and_says_so() -> None:
    def answer(request: MetadataRequest) -> MetadataResponse:
        return metadata(node, [topic.name or "" for topic in request.topics or ()], leader_id=-1)

    async with admin_of({MetadataRequest: answer}) as (node, admin):
        with pytest.raises(TimedOut, match="LEADER_NOT_AVAILABLE: the partition has no leader"):
            await admin.list_offsets({P0: OffsetSpec.LATEST}, timeout_ms=1_000)


async def test_coordinators_are_looked_up_again_after_not_coordinator_and_with_one_request_kip_699() -> None:
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]

    def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host="127.0.0.1", port=node.port) for key in request.coordinator_keys
            ]
        )

    def describe(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        code = codes.pop(0)
        groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups]
        return DescribeGroupsResponse(groups=groups)

    script = {FindCoordinatorRequest: find, DescribeGroupsRequest: describe}
    async with admin_of(script, {"ConsumerGroupDescribe": -1}) as (node, admin):
        described = await admin.describe_groups(["a", "b"])
        assert list(described.succeeded) == ["a", "b"]
        found = [request for request in node.requests if isinstance(request, FindCoordinatorRequest)]
        assert [request.coordinator_keys for request in found] == [["a", "b"]] * 3


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
async def test_assignments_of_groups_that_are_not_of_consumers_are_not_decoded(protocol_type: str) -> None:
    """Their bytes may be valid as those of consumers by chance."""
    assignment = encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=[OwnedPartitions(topic="orders", partitions=[0])]), 1
    )

    def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=node.port)

    def describe(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        members = [DescribedGroupMember(member_id="member", member_assignment=assignment)]
        group = DescribedGroup(group_id="a", group_state="Stable", protocol_type=protocol_type, members=members)
        return DescribeGroupsResponse(groups=[group])

    script = {FindCoordinatorRequest: find, DescribeGroupsRequest: describe}
    async with admin_of(script, {"FindCoordinator": 3, "ConsumerGroupDescribe": -1}) as (node, admin):
        (member,) = (await admin.describe_groups(["a"])).value("a").members
    assert member.assignment == ((P0,) if protocol_type == "consumer" else ())
    assert member.assignment_bytes == assignment


async def test_older_brokers_find_coordinators_and_offsets_of_one_group_at_a_time() -> None:
    def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if request.key == "lost":
            return FindCoordinatorResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=node.port)

    def fetch(request: OffsetFetchRequest) -> OffsetFetchResponse:
        partition = OffsetFetchResponsePartition(committed_offset=len(request.group_id), committed_leader_epoch=-1)
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=[partition])])

    script = {FindCoordinatorRequest: find, OffsetFetchRequest: fetch}
    async with admin_of(script, {"FindCoordinator": 3, "OffsetFetch": 7}) as (node, admin):
        listed = await admin.list_group_offsets({"a": None, "bb": [P0], "lost": None})
        assert dict(listed.value("a")) == {P0: (1, None, "")}
        assert dict(listed.value("bb")) == {P0: (2, None, "")}
        assert "an ACL has to allow it" in str(listed["lost"])


async def test_older_brokers_describe_topics_in_metadata_and_delete_them_by_name() -> None:
    def delete(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name=name) for name in request.topic_names])

    script = {DeleteTopicsRequest: delete}
    async with admin_of(script, {"DescribeTopicPartitions": -1, "DeleteTopics": 5}) as (_, admin):
        described = (await admin.describe_topics(["orders"])).value("orders")
        assert (described.name, described.partitions[0].leader) == ("orders", 1)
        assert described.partitions[0].eligible_leader_replicas is None
        (await admin.delete_topics(["orders"])).raise_first()
        with pytest.raises(UnsupportedByBroker, match="DeleteTopics"):
            await admin.delete_topics([b"\1" * 16])


async def test_topics_that_are_deleted_by_name_are_found_in_responses_that_report_their_ids_too() -> None:
    ids = {"a": b"\1" * 16, "b": b"\2" * 16}

    def delete(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=name, topic_id=topic_id) for name, topic_id in ids.items()]
        )

    async with admin_of({DeleteTopicsRequest: delete}) as (_, admin):
        assert (await admin.delete_topics(["a", ids["b"]])).raise_first() == {"a": None, ids["b"]: None}


async def test_states_of_groups_are_not_left_out_of_a_request_to_a_broker_before_kip_518() -> None:
    async with admin_of({}, {"ListGroups": 3}) as (_, admin):
        listed = await admin.list_groups(states=["Stable"])
        assert isinstance(listed[1], UnsupportedByBroker)
        assert "ListGroups in versions 0 to 3" in str(listed[1])


async def test_a_field_that_an_older_broker_lacks_is_refused_by_name() -> None:
    async with admin_of({}, {"ListOffsets": 6, "ListGroups": 4, "DescribeCluster": 1}) as (_, admin):
        results = await admin.list_offsets({P0: OffsetSpec.MAX_TIMESTAMP})
        assert isinstance(results[P0], UnsupportedByBroker)
        listed = await admin.list_groups(types=["consumer"])
        assert isinstance(listed[1], UnsupportedByBroker)
        assert "ListGroups in versions 0 to 4" in str(listed[1])
        with pytest.raises(UnsupportedByBroker):
            await admin.describe_cluster(include_fenced_brokers=True)


async def test_an_admin_is_used_within_its_block() -> None:
    async with admin_of({}) as (_, admin):
        pass
    with pytest.raises(ClosedError):
        await admin.list_topics()
    with pytest.raises(ClosedError, match="async with"):
        await Admin("localhost:9092").list_topics()


async def test_an_exception_leaves_the_block_as_it_is() -> None:
    async with admin_of({CreateTopicsRequest: lambda _: created(a=ErrorCode.POLICY_VIOLATION)}) as (node, _):
        with pytest.raises(KafkaError) as raised:
            async with Admin(node.address, config=FAST) as admin:
                (await admin.create_topics([NewTopic("a", 1)])).raise_first()
        assert raised.value.code == ErrorCode.POLICY_VIOLATION


async def test_an_admin_whose_task_is_cancelled_leaves_no_connection() -> None:
    async with admin_of({CreateTopicsRequest: lambda _: None}) as (node, _):
        with trio.move_on_after(0.2):
            async with Admin(node.address, config=FAST) as admin:
                await admin.create_topics([NewTopic("a", 1)])
        await node.wait_for_end()
