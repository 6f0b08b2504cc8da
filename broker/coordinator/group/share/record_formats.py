"""The keys and values of share groups' records in `__consumer_offsets`, in Kafka's formats (KIP-932).

`broker.coordinator.group.record_formats` encodes and decodes them with those of all other groups.
"""

from typing import Final

from broker.wire.schema import data, field, struct
from broker.wire.uuids import ZERO_UUID

_NEVER: Final = "99+"


@struct
class SharedTopicPartitions:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "0+", factory=list)


@data(key=10, versions="0", flexible=_NEVER)
class ShareGroupMemberMetadataKey:
    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")


@data(key=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = field(["string"], "0+", factory=list)


@data(key=11, versions="0", flexible=_NEVER)
class ShareGroupMetadataKey:
    group_id: str = field("string", "0+", default="")


@data(key=11, versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """`epoch` of the group; `metadata_hash` of the topics it is subscribed to."""

    epoch: int = field("int32", "0+", default=0)
    metadata_hash: int = field("int64", "0+", default=0)


@data(key=12, versions="0", flexible=_NEVER)
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = field("string", "0+", default="")


@data(key=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """`assignment_timestamp` is the time of the assignment in ms since 1970 (KIP-1263); 0 if there is none."""

    assignment_epoch: int = field("int32", "0+", default=0)
    assignment_timestamp: int = field("int64", "0+", default=0, tag=0, tagged="0+")


@data(key=13, versions="0", flexible=_NEVER)
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")


@data(key=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[SharedTopicPartitions] = field([SharedTopicPartitions], "0+", factory=list)


@data(key=14, versions="0", flexible=_NEVER)
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")


@data(key=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int = field("int32", "0+", default=0)
    previous_member_epoch: int = field("int32", "0+", default=0)
    state: int = field("int8", "0+", default=0)
    assigned_partitions: list[SharedTopicPartitions] = field([SharedTopicPartitions], "0+", factory=list)


@struct
class TopicPartitionsInfo:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    topic_name: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class TopicInfo:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    topic_name: str = field("string", "0+", default="")


@data(key=15, versions="0", flexible=_NEVER)
class ShareGroupStatePartitionMetadataKey:
    group_id: str = field("string", "0+", default="")


@data(key=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """The partitions whose states the share coordinator has, is about to get, or is about to delete."""

    initializing_topics: list[TopicPartitionsInfo] = field([TopicPartitionsInfo], "0+", factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field([TopicPartitionsInfo], "0+", factory=list)
    deleting_topics: list[TopicInfo] = field([TopicInfo], "0+", factory=list)
