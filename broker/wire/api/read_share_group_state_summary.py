"""ReadShareGroupStateSummary (key 87): the start offsets of share-partitions, without their batches (KIP-932).

Flexible from 0. Notable versions:
    1  the number of offsets whose delivery is complete (KIP-1226)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class PartitionData:
    partition: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


@struct
class ReadStateSummaryData:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@request(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[ReadStateSummaryData] = field([ReadStateSummaryData], "0+", factory=list)


@struct
class PartitionResult:
    """`delivery_complete_count` counts offsets from the start offset on; it is -1 if it is not known."""

    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    state_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "1+", default=-1)


@struct
class ReadStateSummaryResult:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = field([PartitionResult], "0+", factory=list)


@response(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = field([ReadStateSummaryResult], "0+", factory=list)
