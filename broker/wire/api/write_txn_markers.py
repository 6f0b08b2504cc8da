"""WriteTxnMarkers (key 27): a transaction coordinator ends transactions in the partitions of another broker (KIP-98).

Always flexible. Notable versions:
    2  the transaction version of each marker (KIP-1228)
"""

from broker.wire.schema import field, request, response, struct


@struct
class WritableTxnMarkerTopic:
    name: str = field("string", "1+", default="")
    partition_indexes: list[int] = field(["int32"], "1+", factory=list)


@struct
class WritableTxnMarker:
    """`transaction_result` is true for a commit. `coordinator_epoch` is the leader epoch of the coordinator's partition
    of `__transaction_state`.
    """

    producer_id: int = field("int64", "1+", default=0)
    producer_epoch: int = field("int16", "1+", default=0)
    transaction_result: bool = field("bool", "1+", default=False)
    topics: list[WritableTxnMarkerTopic] = field([WritableTxnMarkerTopic], "1+", factory=list)
    coordinator_epoch: int = field("int32", "1+", default=0)
    transaction_version: int = field("int8", "2+", default=0)


@request(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field([WritableTxnMarker], "1+", factory=list)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "1+", default=0)


@struct
class WritableTxnMarkerTopicResult:
    name: str = field("string", "1+", default="")
    partitions: list[WritableTxnMarkerPartitionResult] = field([WritableTxnMarkerPartitionResult], "1+", factory=list)


@struct
class WritableTxnMarkerResult:
    producer_id: int = field("int64", "1+", default=0)
    topics: list[WritableTxnMarkerTopicResult] = field([WritableTxnMarkerTopicResult], "1+", factory=list)


@response(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field([WritableTxnMarkerResult], "1+", factory=list)
