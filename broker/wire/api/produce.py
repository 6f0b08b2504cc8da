"""Produce (key 0): append record batches to partitions.

Flexible from 9. Notable versions:
    3  record batches v2 only; 0 to 2 carried older message formats and are gone
    5  the response has the log start offset
    7  batches may be compressed with zstd (KIP-110)
    8  the response names the records that spoiled a batch (KIP-467)
    10 the response names the new leader after a leader change (KIP-951)
    12 adds partitions to the transaction by itself, if transaction.version is 2 (KIP-890)
    13 topics by id instead of name (KIP-516)
"""

from typing import Final

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class PartitionProduceData:
    """`records` is a view of the buffer that was decoded."""

    index: int = field("int32", "0+", default=0)
    records: memoryview | None = field("records", "0+", default=None, nullable="0+")


@struct
class TopicProduceData:
    name: str = field("string", "0-12", default="")
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = field([PartitionProduceData], "0+", factory=list)


# Partitions and topics of one request: more than one broker leads. Each is appended to before the loop goes on.
_ELEMENTS_MAX: Final = 10_000


@request(key=0, versions="3-13", flexible="9+", elements_max=_ELEMENTS_MAX)
class ProduceRequest:
    """`acks`: 0 none, 1 the leader, -1 every in-sync replica."""

    transactional_id: str | None = field("string", "3+", default=None, nullable="3+")
    acks: int = field("int16", "0+", default=0)
    timeout_ms: int = field("int32", "0+", default=0)
    topic_data: list[TopicProduceData] = field([TopicProduceData], "0+", factory=list)


@struct
class BatchIndexAndErrorMessage:
    """One record that was refused, by its index within the batch."""

    batch_index: int = field("int32", "8+", default=0)
    batch_index_error_message: str | None = field("string", "8+", default=None, nullable="8+")


@struct
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "10+", default=-1)
    leader_epoch: int = field("int32", "10+", default=-1)


@struct
class PartitionProduceResponse:
    """`log_append_time_ms` is -1 when the topic keeps the times producers set."""

    index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    base_offset: int = field("int64", "0+", default=0)
    log_append_time_ms: int = field("int64", "2+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field([BatchIndexAndErrorMessage], "8+", factory=list)
    error_message: str | None = field("string", "8+", default=None, nullable="8+")
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", default=None, tag=0, tagged="10+")


@struct
class TopicProduceResponse:
    name: str = field("string", "0-12", default="")
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = field([PartitionProduceResponse], "0+", factory=list)


@struct
class NodeEndpoint:
    node_id: int = field("int32", "10+", default=0)
    host: str = field("string", "10+", default="")
    port: int = field("int32", "10+", default=0)
    rack: str | None = field("string", "10+", default=None, nullable="10+")


@response(key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = field([TopicProduceResponse], "0+", factory=list)
    throttle_time_ms: int = field("int32", "1+", default=0)
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "10+", factory=list, tag=0, tagged="10+")
