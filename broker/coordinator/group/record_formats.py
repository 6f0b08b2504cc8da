"""The keys and values of the records in `__consumer_offsets`, in Kafka's formats.

    key     type int16, then the fields of the type's key; never flexible
    value   version int16, then the fields of that version; null removes what the key names

Names, types, versions and fields are those of Kafka's definitions (group-coordinator/.../common/message). A value is
written in the same version as by Kafka.
"""

from struct import Struct
from typing import Any, Final, TypeAlias

from broker.coordinator.group.share.record_formats import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from broker.wire.codec import decoder, encoder
from broker.wire.errors import WireError
from broker.wire.schema import Buffer, Message, data, field, struct
from broker.wire.uuids import ZERO_UUID

_INT16: Final = Struct(">h")
_NEVER: Final = "99+"


@data(key=0, versions="0", flexible=_NEVER)
class LegacyOffsetCommitKey:
    """The same as OffsetCommitKey, as Kafka before 0.9 wrote it."""

    group: str = field("string", "0+", default="")
    topic: str = field("string", "0+", default="")
    partition: int = field("int32", "0+", default=0)


@data(key=1, versions="0", flexible=_NEVER)
class OffsetCommitKey:
    group: str = field("string", "0+", default="")
    topic: str = field("string", "0+", default="")
    partition: int = field("int32", "0+", default=0)


@data(key=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    """Times are in ms since 1970. `expire_timestamp` is -1 unless the client sent a retention time, which OffsetCommit
    has before version 5. `topic_id` is all zero if it is not known.
    """

    offset: int = field("int64", "0+", default=0)
    leader_epoch: int = field("int32", "3+", default=-1)
    metadata: str = field("string", "0+", default="")
    commit_timestamp: int = field("int64", "0+", default=0)
    expire_timestamp: int = field("int64", "1", default=-1)
    topic_id: bytes = field("uuid", "4+", default=ZERO_UUID, tag=0, tagged="4+")


@data(key=2, versions="0", flexible=_NEVER)
class GroupMetadataKey:
    group: str = field("string", "0+", default="")


@struct
class MemberMetadata:
    """Timeouts are in ms. `subscription` and `assignment` are in the client's format."""

    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    rebalance_timeout: int = field("int32", "1+", default=-1)
    session_timeout: int = field("int32", "0+", default=0)
    subscription: bytes = field("bytes", "0+", default=b"")
    assignment: bytes = field("bytes", "0+", default=b"")


@data(key=2, versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A complete generation of a classic group. `current_state_timestamp` is in ms since 1970; -1 if unknown."""

    protocol_type: str = field("string", "0+", default="")
    generation: int = field("int32", "0+", default=0)
    protocol: str | None = field("string", "0+", default=None, nullable="0+")
    leader: str | None = field("string", "0+", default=None, nullable="0+")
    current_state_timestamp: int = field("int64", "2+", default=-1)
    members: list[MemberMetadata] = field([MemberMetadata], "0+", factory=list)


@data(key=3, versions="0", flexible=_NEVER)
class ConsumerGroupMetadataKey:
    group_id: str = field("string", "0+", default="")


@data(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """`epoch` of the group; `metadata_hash` of the topics it is subscribed to."""

    epoch: int = field("int32", "0+", default=0)
    metadata_hash: int = field("int64", "0+", default=0, tag=0, tagged="0+")


@data(key=4, versions="0", flexible=_NEVER)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = field("string", "0+", default="")


@struct
class PartitionMetadata:
    partition: int = field("int32", "0+", default=0)
    racks: list[str] = field(["string"], "0+", factory=list)


@struct
class TopicMetadata:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    topic_name: str = field("string", "0+", default="")
    num_partitions: int = field("int32", "0+", default=0)
    partition_metadata: list[PartitionMetadata] = field([PartitionMetadata], "0+", factory=list)


@data(key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """Written by Kafka before ConsumerGroupMetadataValue had the hash. Kafka now only removes such records."""

    topics: list[TopicMetadata] = field([TopicMetadata], "0+", factory=list)


@data(key=5, versions="0", flexible=_NEVER)
class ConsumerGroupMemberMetadataKey:
    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")


@struct
class ClassicProtocol:
    name: str = field("string", "0+", default="")
    metadata: bytes = field("bytes", "0+", default=b"")


@struct
class ClassicMemberMetadata:
    """A member of a consumer group that uses the classic protocol."""

    session_timeout_ms: int = field("int32", "0+", default=0)
    supported_protocols: list[ClassicProtocol] = field([ClassicProtocol], "0+", factory=list)


@data(key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = field("string", "0+", default=None, nullable="0+")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = field(["string"], "0+", factory=list)
    subscribed_topic_regex: str | None = field("string", "0+", default=None, nullable="0+")
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    server_assignor: str | None = field("string", "0+", default=None, nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, "0+", default=None, nullable="0+", tag=0, tagged="0+"
    )


@data(key=6, versions="0", flexible=_NEVER)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = field("string", "0+", default="")


@data(key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = field("int32", "0+", default=0)


@struct
class TopicPartitions:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "0+", factory=list)


@data(key=7, versions="0", flexible=_NEVER)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")


@data(key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartitions] = field([TopicPartitions], "0+", factory=list)


@data(key=8, versions="0", flexible=_NEVER)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")


@struct
class AssignedTopicPartitions:
    """`assignment_epochs` has the epoch at which each of the partitions was assigned to the member (KIP-1251); it is
    None or empty in records of Kafka before 4.3.
    """

    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "0+", factory=list)
    assignment_epochs: list[int] | None = field(["int32"], "0+", factory=list, nullable="0+", tag=0, tagged="0+")


@data(key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = field("int32", "0+", default=0)
    previous_member_epoch: int = field("int32", "0+", default=0)
    state: int = field("int8", "0+", default=0)
    assigned_partitions: list[AssignedTopicPartitions] = field([AssignedTopicPartitions], "0+", factory=list)
    partitions_pending_revocation: list[AssignedTopicPartitions] = field([AssignedTopicPartitions], "0+", factory=list)


@data(key=16, versions="0", flexible=_NEVER)
class ConsumerGroupRegularExpressionKey:
    group_id: str = field("string", "0+", default="")
    regular_expression: str = field("string", "0+", default="")


@data(key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that the expression meant at a version of the metadata; `timestamp` in ms since 1970."""

    topics: list[str] = field(["string"], "0+", factory=list)
    version: int = field("int64", "0+", default=0)
    timestamp: int = field("int64", "0+", default=0)


# The classes have no base class; a key or a value is an instance of one of those in `_TYPES`.
RecordKey: TypeAlias = Any
RecordValue: TypeAlias = Any

# By record type: the key's class, the value's class, and the version in which the value is written.
_TYPES: Final[dict[int, tuple[type[Any], type[Any], int]]] = {
    0: (LegacyOffsetCommitKey, OffsetCommitValue, 0),
    1: (OffsetCommitKey, OffsetCommitValue, 4),
    2: (GroupMetadataKey, GroupMetadataValue, 3),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0),
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, 0),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue, 0),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue, 0),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, 0),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue, 0),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue, 0),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
}
# The only version with an expire timestamp.
OFFSET_COMMIT_VALUE_WITH_EXPIRY: Final = 1


class UnknownCoordinatorRecordType(Exception):
    """A record of a type that is not known here: written by a later version, or for groups that are not served."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def encode_key(key: RecordKey) -> bytes:
    """Encodes a record's key."""
    cls: type[Message] = type(key)
    return b"".join([_INT16.pack(cls.__message__.key), *encoder(cls, 0)(key)])


def encode_value(value: RecordValue, version: int | None = None) -> bytes:
    """Encodes a record's value; by default in the version that Kafka writes. Raises WireError if a text is too long."""
    cls: type[Message] = type(value)
    if version is None:
        version = _TYPES[cls.__message__.key][2]
    return b"".join([_INT16.pack(version), *encoder(cls, version)(value)])


def decode_key(key: Buffer | None) -> RecordKey:
    """Decodes a record's key. Raises UnknownCoordinatorRecordType, WireError."""
    number = _number(key, "key")
    if number not in _TYPES:
        raise UnknownCoordinatorRecordType(number)
    cls: type[Message] = _TYPES[number][0]
    return decoder(cls, 0)(key, _INT16.size)[0]


def decode_value(key: RecordKey, value: Buffer) -> RecordValue:
    """Decodes the value of a record with this key. Raises WireError, also for an unknown version."""
    cls: type[Message] = _TYPES[key.__message__.key][1]
    return decoder(cls, _number(value, "value"))(value, _INT16.size)[0]


def _number(data: Buffer | None, what: str) -> int:
    if data is None or len(data) < _INT16.size:
        raise WireError(f"a record's {what} of {0 if data is None else len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
