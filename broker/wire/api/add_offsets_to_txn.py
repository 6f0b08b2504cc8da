"""AddOffsetsToTxn (key 25): a transaction is about to commit offsets of a group (KIP-98).

Flexible from 3. Notable versions:
    2  PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588)
    4  may answer TRANSACTION_ABORTABLE (KIP-890)
"""

from broker.wire.schema import field, request, response


@request(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    group_id: str = field("string", "0+", default="")


@response(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
