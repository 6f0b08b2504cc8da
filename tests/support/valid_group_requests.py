"""Valid requests of group members and of administrators of groups, which tests mutate."""

from typing import Any

from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from broker.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.consumer_group_heartbeat import TopicPartitions as OwnedPartitions
from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from broker.wire.api.share_acknowledge import AcknowledgementBatch as AcknowledgedBatch
from broker.wire.api.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from broker.wire.api.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from broker.wire.api.share_group_describe import ShareGroupDescribeRequest
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP, MEMBER, INSTANCE = "hostile-group", "hostile-member", "hostile-instance"
SHARE_GROUP = f"{GROUP}-932"
# The subscription of a consumer of one topic: version 0, one topic named "t", no user data.
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
TOPIC_ID = b"\x7f" * 16

Messages = list[tuple[Any, tuple[int, ...]]]


def group_messages(topic: str) -> Messages:
    """Requests with the versions to send each in; offsets are those of partition 0 of `topic`."""
    return [
        (FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP, "another"]), (0, 2, 3, 4, 6)),
        *_classic(),
        *_consumer(topic),
        *_share(topic),
        *_offsets(topic),
        (DescribeGroupsRequest(groups=[GROUP, "another"], include_authorized_operations=True), (0, 3, 5, 6)),
        (ListGroupsRequest(states_filter=["Stable", "Empty"], types_filter=["classic"]), (0, 3, 4, 5)),
        (DeleteGroupsRequest(groups_names=[f"{GROUP}-none"]), (0, 1, 2)),
        (ConsumerGroupDescribeRequest(group_ids=[GROUP, f"{GROUP}-848"]), (0, 1)),
    ]


def _classic() -> Messages:
    protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
    join = {"group_id": GROUP, "session_timeout_ms": 6000, "protocol_type": "consumer", "protocols": [protocol]}
    assignment = SyncGroupRequestAssignment(member_id=MEMBER, assignment=SUBSCRIPTION)
    member = {"group_id": GROUP, "generation_id": 1, "member_id": MEMBER}
    return [
        (JoinGroupRequest(**join, rebalance_timeout_ms=1000), (0, 2, 4, 6, 9)),
        (JoinGroupRequest(**join, rebalance_timeout_ms=1000, group_instance_id=INSTANCE, reason="spite"), (5, 9)),
        (SyncGroupRequest(**member, protocol_type="consumer", protocol_name="range", assignments=[assignment]), (0, 5)),
        (HeartbeatRequest(**member, group_instance_id=None), (0, 3, 4)),
        (LeaveGroupRequest(group_id=GROUP, member_id=MEMBER, members=[MemberIdentity(member_id=MEMBER)]), (0, 3, 5)),
    ]


def _consumer(topic: str) -> Messages:
    group = f"{GROUP}-848"
    joins = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[topic],
        server_assignor="uniform",
        topic_partitions=[],
    )
    by_regex = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"{MEMBER}-2",
        instance_id=INSTANCE,
        rack_id="rack",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[],
        subscribed_topic_regex="hostile-(target|[a-z]{2,3}).*",
        topic_partitions=[],
    )
    owned = [OwnedPartitions(topic_id=TOPIC_ID, partitions=[0, 1])]
    goes_on = ConsumerGroupHeartbeatRequest(group_id=group, member_id=MEMBER, member_epoch=1, topic_partitions=owned)
    leaves = ConsumerGroupHeartbeatRequest(group_id=group, member_id=MEMBER, member_epoch=-1)
    return [(joins, (0, 1)), (by_regex, (1,)), (goes_on, (0, 1)), (leaves, (1,))]


def _share(topic: str) -> Messages:
    member: dict[str, Any] = {"group_id": SHARE_GROUP, "member_id": MEMBER}
    batch = {"first_offset": 0, "last_offset": 2, "acknowledge_types": [1, 2, 3]}
    fetched = FetchPartition(acknowledgement_batches=[AcknowledgementBatch(**batch)])
    fetch = ShareFetchRequest(
        **member,
        max_wait_ms=50,
        max_records=10,
        batch_size=10,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[fetched])],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[1])],
    )
    accepted = AcknowledgePartition(acknowledgement_batches=[AcknowledgedBatch(**batch)])
    acknowledge = ShareAcknowledgeRequest(
        **member, share_session_epoch=1, topics=[AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[accepted])]
    )
    return [
        (ShareGroupHeartbeatRequest(**member, rack_id="rack", subscribed_topic_names=[topic]), (1,)),
        *_share_offsets(topic),
        (fetch, (1, 2)),
        (acknowledge, (1, 2)),
    ]


def _share_offsets(topic: str) -> Messages:
    group = SHARE_GROUP
    described = DescribeShareGroupOffsetsRequestGroup(
        group_id=group, topics=[DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])]
    )
    altered = AlterShareGroupOffsetsRequestTopic(
        topic_name=topic, partitions=[AlterShareGroupOffsetsRequestPartition(start_offset=1)]
    )
    return [
        (ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), (1,)),
        (DescribeShareGroupOffsetsRequest(groups=[described]), (0, 1)),
        (AlterShareGroupOffsetsRequest(group_id=f"{group}-new", topics=[altered]), (0,)),
        (
            DeleteShareGroupOffsetsRequest(
                group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
            ),
            (0,),
        ),
    ]


def _offsets(topic: str) -> Messages:
    committed = OffsetCommitRequestPartition(committed_offset=1, committed_leader_epoch=0, committed_metadata="note")
    commit = OffsetCommitRequest(
        group_id=f"{GROUP}-simple",
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=TOPIC_ID, partitions=[committed])],
    )
    asked = OffsetFetchRequestTopics(name=topic, topic_id=TOPIC_ID, partition_indexes=[0, 1])
    fetch = OffsetFetchRequest(
        group_id=GROUP,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])],
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[asked]), OffsetFetchRequestGroup(group_id="another")],
    )
    gone = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition()])
    return [
        (commit, (2, 5, 7, 8, 10)),
        (fetch, (1, 5, 6, 7, 8, 9, 10)),
        (OffsetDeleteRequest(group_id=GROUP, topics=[gone]), (0,)),
    ]
