"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Flexible from 3. Notable versions:
    2  PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588)
    4  may answer TRANSACTION_ABORTABLE (KIP-890)
    5  the producer's next id and epoch are in the answer: each transaction has its own epoch (KIP-890)
"""

from broker.wire.schema import field, request, response


@request(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    committed: bool = field("bool", "0+", default=False)


@response(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    producer_id: int = field("int64", "5+", default=-1)
    producer_epoch: int = field("int16", "5+", default=-1)
