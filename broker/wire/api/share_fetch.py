"""ShareFetch (key 78): acquire records as a member of a share group, and acknowledge earlier ones (KIP-932).

Flexible from 0. Version 0 was an early access of Kafka 4.0, which later releases do not serve. Notable versions:
    2  the mode of acquisition (KIP-1206), renewals of acquisition locks (KIP-1222)
"""

from broker.wire.schema import OpaqueRecords, field, request, response, struct
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
class FetchPartition:
    partition_index: int = field("int32", "0+", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field([AcknowledgementBatch], "0+", factory=list)


@struct
class FetchTopic:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[FetchPartition] = field([FetchPartition], "0+", factory=list)


@struct
class ForgottenTopic:
    """Partitions that leave the share session."""

    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "0+", factory=list)


@request(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    """`share_session_epoch` is 0 to open a session, -1 to close it. `batch_size` is a number of records."""

    group_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str | None = field("string", "0+", default="", nullable="0+")
    share_session_epoch: int = field("int32", "0+", default=0)
    max_wait_ms: int = field("int32", "0+", default=0)
    min_bytes: int = field("int32", "0+", default=0)
    max_bytes: int = field("int32", "0+", default=0x7FFFFFFF)
    max_records: int = field("int32", "1+", default=0)
    batch_size: int = field("int32", "1+", default=0)
    share_acquire_mode: int = field("int8", "2+", default=0)
    is_renew_ack: bool = field("bool", "2+", default=False)
    topics: list[FetchTopic] = field([FetchTopic], "0+", factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field([ForgottenTopic], "0+", factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


@struct
class AcquiredRecords:
    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    delivery_count: int = field("int16", "0+", default=0)


@struct
class PartitionData:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    acknowledge_error_code: int = field("int16", "0+", default=0)
    acknowledge_error_message: str | None = field("string", "0+", default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "0+", factory=LeaderIdAndEpoch)
    records: OpaqueRecords = field("records", "0+", default=b"")
    acquired_records: list[AcquiredRecords] = field([AcquiredRecords], "0+", factory=list)


@struct
class ShareFetchableTopicResponse:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@struct
class NodeEndpoint:
    node_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "0+", default=None, nullable="0+")


@response(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = field("int32", "1+", default=0)
    responses: list[ShareFetchableTopicResponse] = field([ShareFetchableTopicResponse], "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "0+", factory=list)
