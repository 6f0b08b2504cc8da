"""DescribeProducers (key 61): the producers that partitions know, and their open transactions (KIP-664).

Always flexible.
"""

from broker.wire.schema import field, request, response, struct


@struct
class TopicRequest:
    name: str = field("string", "0+", default="")
    partition_indexes: list[int] = field(["int32"], "0+", factory=list)


@request(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest] = field([TopicRequest], "0+", factory=list)


@struct
class ProducerState:
    """`last_timestamp` in milliseconds; `current_txn_start_offset` is -1 where no transaction is open."""

    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int32", "0+", default=0)
    last_sequence: int = field("int32", "0+", default=-1)
    last_timestamp: int = field("int64", "0+", default=-1)
    coordinator_epoch: int = field("int32", "0+", default=0)
    current_txn_start_offset: int = field("int64", "0+", default=-1)


@struct
class PartitionResponse:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    active_producers: list[ProducerState] = field([ProducerState], "0+", factory=list)


@struct
class TopicResponse:
    name: str = field("string", "0+", default="")
    partitions: list[PartitionResponse] = field([PartitionResponse], "0+", factory=list)


@response(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[TopicResponse] = field([TopicResponse], "0+", factory=list)
