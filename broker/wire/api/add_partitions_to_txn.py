"""AddPartitionsToTxn (key 24): partitions that a transaction is about to write to (KIP-98).

Flexible from 3. Notable versions:
    2  PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588)
    4  for brokers: many transactions at once, and whether partitions have been added already (KIP-890)
    5  may answer TRANSACTION_ABORTABLE (KIP-890)
"""

from broker.wire.schema import field, request, response, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class AddPartitionsToTxnTransaction:
    """With `verify_only`, nothing is added: the response says which partitions belong to the transaction."""

    transactional_id: str = field("string", "4+", default="")
    producer_id: int = field("int64", "4+", default=0)
    producer_epoch: int = field("int16", "4+", default=0)
    verify_only: bool = field("bool", "4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], "4+", factory=list)


@request(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field([AddPartitionsToTxnTransaction], "4+", factory=list)
    v3_and_below_transactional_id: str = field("string", "0-3", default="")
    v3_and_below_producer_id: int = field("int64", "0-3", default=0)
    v3_and_below_producer_epoch: int = field("int16", "0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], "0-3", factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = field("int32", "0+", default=0)
    partition_error_code: int = field("int16", "0+", default=0)


@struct
class AddPartitionsToTxnTopicResult:
    name: str = field("string", "0+", default="")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        [AddPartitionsToTxnPartitionResult], "0+", factory=list
    )


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = field("string", "4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = field([AddPartitionsToTxnTopicResult], "4+", factory=list)


@response(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field([AddPartitionsToTxnResult], "4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], "0-3", factory=list
    )
