"""InitProducerId (key 22): a producer id and epoch, for idempotence and transactions (KIP-98).

Flexible from 2. Notable versions:
    3  the producer's own id and epoch, so that it may go on after an error (KIP-360)
    4  PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588)
    5  may answer TRANSACTION_ABORTABLE (KIP-890)
    6  two-phase commit (KIP-939); Kafka 4.4 lists this version only with `unstable.api.versions.enable`
"""

from broker.wire.schema import field, request, response


@request(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """`transactional_id` is None for a producer that is only idempotent.

    With `enable2_pc` the coordinator never ends the producer's transactions because of their age. With
    `keep_prepared_txn` it leaves an open transaction as it is; otherwise it aborts it.
    """

    transactional_id: str | None = field("string", "0+", default="", nullable="0+")
    transaction_timeout_ms: int = field("int32", "0+", default=0)
    producer_id: int = field("int64", "3+", default=-1)
    producer_epoch: int = field("int16", "3+", default=-1)
    enable2_pc: bool = field("bool", "6+", default=False)
    keep_prepared_txn: bool = field("bool", "6+", default=False)


@response(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """`ongoing_txn_producer_id` and `ongoing_txn_producer_epoch` are those of the transaction that was kept, or -1."""

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    producer_id: int = field("int64", "0+", default=-1)
    producer_epoch: int = field("int16", "0+", default=0)
    ongoing_txn_producer_id: int = field("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = field("int16", "6+", default=-1)
