"""DescribeTransactions (key 65): the state of transactions, by transactional id (KIP-664).

Always flexible.
"""

from broker.wire.schema import field, request, response, struct


@request(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[str] = field(["string"], "0+", factory=list)


@struct
class TopicData:
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class TransactionState:
    error_code: int = field("int16", "0+", default=0)
    transactional_id: str = field("string", "0+", default="")
    transaction_state: str = field("string", "0+", default="")
    transaction_timeout_ms: int = field("int32", "0+", default=0)
    transaction_start_time_ms: int = field("int64", "0+", default=0)
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    topics: list[TopicData] = field([TopicData], "0+", factory=list)


@response(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    transaction_states: list[TransactionState] = field([TransactionState], "0+", factory=list)
