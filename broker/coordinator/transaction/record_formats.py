"""The keys and values of the records in `__transaction_state`, in Kafka's formats.

    key     version int16 (0), transactional id
    value   version int16, then the fields of that version; null removes the transactional id

Names, types, versions and fields are those of Kafka's definitions (transaction-coordinator/.../common/message). Version
1 of the value is written from transaction.version 1 on.
"""

from struct import Struct
from typing import Any, Final

from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.transaction.transaction import Transaction, TransactionState
from broker.wire.codec import decode, encode
from broker.wire.errors import WireError
from broker.wire.schema import Buffer, data, field, struct

_INT16: Final = Struct(">h")
_KEY_VERSION: Final = 0
_FLEXIBLE_VALUE: Final = 1
_STATES: Final = frozenset(TransactionState)


@data(key=0, versions="0", flexible="99+")
class TransactionLogKey:
    transactional_id: str = field("string", "0+", default="")


@struct
class PartitionsSchema:
    topic: str = field("string", "0+", default="")
    partition_ids: list[int] = field(["int32"], "0+", factory=list)


@data(key=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    """Times are in ms since 1970, or -1. `transaction_status` is a TransactionState."""

    producer_id: int = field("int64", "0+", default=0)
    previous_producer_id: int = field("int64", "1+", default=-1, tag=0, tagged="1+")
    next_producer_id: int = field("int64", "1+", default=-1, tag=1, tagged="1+")
    producer_epoch: int = field("int16", "0+", default=0)
    transaction_timeout_ms: int = field("int32", "0+", default=0)
    transaction_status: int = field("int8", "0+", default=0)
    transaction_partitions: list[PartitionsSchema] | None = field([PartitionsSchema], "0+", factory=list, nullable="0+")
    transaction_last_update_timestamp_ms: int = field("int64", "0+", default=0)
    transaction_start_timestamp_ms: int = field("int64", "0+", default=0)
    client_transaction_version: int = field("int16", "1+", default=0, tag=2, tagged="1+")


# The classes have no base class.
_KEY: Final[type[Any]] = TransactionLogKey
_VALUE: Final[type[Any]] = TransactionLogValue


def encode_key(transactional_id: str) -> bytes:
    """The key of the records of a transactional id. Raises WireError if the id is too long."""
    key: Any = TransactionLogKey(transactional_id=transactional_id)
    return b"".join([_INT16.pack(_KEY_VERSION), *encode(key, 0)])


def encode_transaction(transactional_id: str, transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    """The record of a transactional id's state, in the format of the cluster's transaction.version."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in transaction.partitions:
        by_topic.setdefault(topic, []).append(index)
    value: Any = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    version = min(transaction_version, _FLEXIBLE_VALUE)
    if version >= _FLEXIBLE_VALUE:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return CoordinatorRecord(encode_key(transactional_id), b"".join([_INT16.pack(version), *encode(value, version)]))


def decode_key(key: Buffer) -> str | None:
    """The transactional id that a record is about; None for a key of a later version. Raises WireError."""
    if _number(key, "key") != _KEY_VERSION:
        return None
    decoded = decode(_KEY, 0, key, _INT16.size)[0]
    transactional_id: str = decoded.transactional_id
    return transactional_id


def decode_transaction(value: Buffer) -> Transaction:
    """The state of a transactional id. Raises WireError, also for an unknown version."""
    decoded = decode(_VALUE, _number(value, "value"), value, _INT16.size)[0]
    if decoded.transaction_status not in _STATES:
        raise WireError(f"a transaction of the unknown status {decoded.transaction_status}")
    return Transaction(
        producer_id=decoded.producer_id,
        producer_epoch=decoded.producer_epoch,
        timeout_ms=decoded.transaction_timeout_ms,
        state=TransactionState(decoded.transaction_status),
        partitions=tuple(
            (topic.topic, index) for topic in decoded.transaction_partitions or () for index in topic.partition_ids
        ),
        start_ms=decoded.transaction_start_timestamp_ms,
        last_update_ms=decoded.transaction_last_update_timestamp_ms,
        previous_producer_id=decoded.previous_producer_id,
        next_producer_id=decoded.next_producer_id,
        client_version=decoded.client_transaction_version,
    )


def _number(data: Buffer, what: str) -> int:
    if len(data) < _INT16.size:
        raise WireError(f"a record's {what} of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
