"""ListTransactions (key 66): the transactions that a broker coordinates (KIP-664).

Always flexible. Notable versions:
    1  a filter for how long transactions have been open (KIP-994)
    2  a filter for transactional ids (KIP-1152)
"""

from broker.wire.schema import field, request, response, struct


@request(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """Empty filters match all. `duration_filter` is in milliseconds; -1 matches all."""

    state_filters: list[str] = field(["string"], "0+", factory=list)
    producer_id_filters: list[int] = field(["int64"], "0+", factory=list)
    duration_filter: int = field("int64", "1+", default=-1)
    transactional_id_pattern: str | None = field("string", "2+", default=None, nullable="2+")


@struct
class TransactionState:
    transactional_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    transaction_state: str = field("string", "0+", default="")


@response(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    unknown_state_filters: list[str] = field(["string"], "0+", factory=list)
    transaction_states: list[TransactionState] = field([TransactionState], "0+", factory=list)
