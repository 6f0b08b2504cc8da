"""ShareAcknowledge (key 79): acknowledge records that a member of a share group has acquired (KIP-932).

Flexible from 0. Version 0 was an early access of Kafka 4.0, which later releases do not serve. Notable versions:
    2  renewals of acquisition locks (KIP-1222)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class AcknowledgementBatch:
    """The offsets `first_offset` to `last_offset`, and one type for all of them or a type for each.

    The types are 0 for a gap, 1 to accept, 2 to release, 3 to reject, and 4 to renew.
    """

    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    acknowledge_types: list[int] = field(["int8"], "0+", factory=list)


@struct
class AcknowledgePartition:
    partition_index: int = field("int32", "0+", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field([AcknowledgementBatch], "0+", factory=list)


@struct
class AcknowledgeTopic:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[AcknowledgePartition] = field([AcknowledgePartition], "0+", factory=list)


@request(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """`share_session_epoch` is -1 to close the session."""

    group_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str | None = field("string", "0+", default="", nullable="0+")
    share_session_epoch: int = field("int32", "0+", default=0)
    is_renew_ack: bool = field("bool", "2+", default=False)
    topics: list[AcknowledgeTopic] = field([AcknowledgeTopic], "0+", factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


@struct
class PartitionData:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "0+", factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@struct
class NodeEndpoint:
    node_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "0+", default=None, nullable="0+")


@response(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = field("int32", "2+", default=0)
    responses: list[ShareAcknowledgeTopicResponse] = field([ShareAcknowledgeTopicResponse], "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "0+", factory=list)
