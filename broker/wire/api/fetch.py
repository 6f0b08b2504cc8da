"""Fetch (key 1): read record batches from partitions, as a consumer or as a follower.

Flexible from 12. Notable versions:
    4  isolation level and aborted transactions; record batches v2
    5  log start offsets
    7  fetch sessions: only changes are sent (KIP-227)
    9  the client's leader epoch, for fencing (KIP-320)
    11 rack of the consumer, preferred read replica (KIP-392)
    12 last fetched epoch and diverging epoch: truncation by fetching (KIP-595)
    13 topics by id instead of name (KIP-516)
    15 the follower's id and epoch in a tagged field, in place of replica_id (KIP-903)
    16 endpoints of new leaders (KIP-951)
    17 the follower's log directory id (KIP-853)
    18 the high watermark the follower knows (KIP-1166)
"""

from broker.wire.schema import OpaqueRecords, field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class ReplicaState:
    replica_id: int = field("int32", "15+", default=-1)
    replica_epoch: int = field("int64", "15+", default=-1)


@struct
class FetchPartition:
    partition: int = field("int32", "0+", default=0)
    current_leader_epoch: int = field("int32", "9+", default=-1)
    fetch_offset: int = field("int64", "0+", default=0)
    last_fetched_epoch: int = field("int32", "12+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    partition_max_bytes: int = field("int32", "0+", default=0)
    replica_directory_id: bytes = field("uuid", "17+", default=ZERO_UUID, tag=0, tagged="17+")
    high_watermark: int = field("int64", "18+", default=0x7FFFFFFFFFFFFFFF, tag=1, tagged="18+")


@struct
class FetchTopic:
    topic: str = field("string", "0-12", default="")
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    partitions: list[FetchPartition] = field([FetchPartition], "0+", factory=list)


@struct
class ForgottenTopic:
    """Partitions that leave the fetch session."""

    topic: str = field("string", "7-12", default="")
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "7+", factory=list)


@request(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    """`replica_id` is -1 for consumers; followers name themselves in `replica_state` from version 15 on."""

    cluster_id: str | None = field("string", "12+", default=None, nullable="12+", tag=0, tagged="12+")
    replica_id: int = field("int32", "0-14", default=-1)
    replica_state: ReplicaState | None = field(ReplicaState, "15+", default=None, tag=1, tagged="15+")
    max_wait_ms: int = field("int32", "0+", default=0)
    min_bytes: int = field("int32", "0+", default=0)
    max_bytes: int = field("int32", "3+", default=0x7FFFFFFF)
    isolation_level: int = field("int8", "4+", default=0)
    session_id: int = field("int32", "7+", default=0)
    session_epoch: int = field("int32", "7+", default=-1)
    topics: list[FetchTopic] = field([FetchTopic], "0+", factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field([ForgottenTopic], "7+", factory=list)
    rack_id: str = field("string", "11+", default="")


@struct
class EpochEndOffset:
    """The point where the leader's log diverges from the follower's: the latest common epoch, and its end offset."""

    epoch: int = field("int32", "12+", default=-1)
    end_offset: int = field("int64", "12+", default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "12+", default=-1)
    leader_epoch: int = field("int32", "12+", default=-1)


@struct
class SnapshotId:
    """The snapshot to fetch instead, when the offset lies before the start of the log."""

    end_offset: int = field("int64", "0+", default=-1)
    epoch: int = field("int32", "0+", default=-1)


@struct
class AbortedTransaction:
    """Records of this producer from `first_offset` up to its abort marker are not to be read."""

    producer_id: int = field("int64", "4+", default=0)
    first_offset: int = field("int64", "4+", default=0)


@struct
class PartitionData:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    high_watermark: int = field("int64", "0+", default=0)
    last_stable_offset: int = field("int64", "4+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, "12+", default=None, tag=0, tagged="12+")
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", default=None, tag=1, tagged="12+")
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", default=None, tag=2, tagged="12+")
    aborted_transactions: list[AbortedTransaction] | None = field(
        [AbortedTransaction], "4+", factory=list, nullable="4+"
    )
    preferred_read_replica: int = field("int32", "11+", default=-1)
    records: OpaqueRecords | None = field("records", "0+", default=None, nullable="0+")


@struct
class FetchableTopicResponse:
    topic: str = field("string", "0-12", default="")
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@struct
class NodeEndpoint:
    node_id: int = field("int32", "16+", default=0)
    host: str = field("string", "16+", default="")
    port: int = field("int32", "16+", default=0)
    rack: str | None = field("string", "16+", default=None, nullable="16+")


@response(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "7+", default=0)
    session_id: int = field("int32", "7+", default=0)
    responses: list[FetchableTopicResponse] = field([FetchableTopicResponse], "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "16+", factory=list, tag=0, tagged="16+")
