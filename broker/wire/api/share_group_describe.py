"""ShareGroupDescribe (key 77): share groups, with their members and what each is assigned (KIP-932).

Flexible from 0. Version 0 was an early access of Kafka 4.0, which later releases do not serve.
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@request(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    group_ids: list[str] = field(["string"], "0+", factory=list)
    include_authorized_operations: bool = field("bool", "0+", default=False)


@struct
class DescribedTopicPartitions:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    topic_name: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class DescribedAssignment:
    topic_partitions: list[DescribedTopicPartitions] = field([DescribedTopicPartitions], "0+", factory=list)


@struct
class DescribedMember:
    member_id: str = field("string", "0+", default="")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_epoch: int = field("int32", "0+", default=0)
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = field(["string"], "0+", factory=list)
    assignment: DescribedAssignment = field(DescribedAssignment, "0+", factory=DescribedAssignment)


@struct
class DescribedGroup:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    group_id: str = field("string", "0+", default="")
    group_state: str = field("string", "0+", default="")
    group_epoch: int = field("int32", "0+", default=0)
    assignment_epoch: int = field("int32", "0+", default=0)
    assignor_name: str = field("string", "0+", default="")
    members: list[DescribedMember] = field([DescribedMember], "0+", factory=list)
    authorized_operations: int = field("int32", "0+", default=-(1 << 31))


@response(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribedGroup] = field([DescribedGroup], "0+", factory=list)
