"""The records of `__transaction_state`: the same bytes as Kafka's, and fields that Kafka does not have."""

import pytest

from broker.coordinator.transaction.record_formats import decode_key, decode_transaction, encode_key, encode_transaction
from broker.coordinator.transaction.transaction import Transaction, TransactionState
from broker.wire.errors import WireError

TRANSACTION = Transaction(
    producer_id=1,
    producer_epoch=2,
    timeout_ms=3,
    state=TransactionState.ONGOING,
    partitions=(("a", 0), ("a", 2), ("b", 1)),
    start_ms=4,
    last_update_ms=5,
    previous_producer_id=6,
    next_producer_id=7,
    client_version=2,
)


def test_key_is_version_0_and_the_transactional_id() -> None:
    assert encode_key("id") == b"\0\0\0\x02id"
    assert decode_key(b"\0\0\0\x02id") == "id"
    assert decode_key(b"\0\x09\0\x02id") is None


def test_value_of_transaction_version_0_has_no_tagged_fields() -> None:
    record = encode_transaction("id", TRANSACTION, 0)
    assert record.value is not None
    assert record.value.hex() == (
        "0000" + "0000000000000001" + "0002" + "00000003" + "01" + "00000002"
        "000161" + "00000002" + "00000000" + "00000002" + "000162" + "00000001" + "00000001"
        "0000000000000005" + "0000000000000004"
    )
    decoded = decode_transaction(record.value)
    assert (decoded.previous_producer_id, decoded.next_producer_id, decoded.client_version) == (-1, -1, 0)
    assert decoded.partitions == TRANSACTION.partitions


@pytest.mark.parametrize("version", [1, 2])
def test_value_of_later_transaction_versions_holds_everything(version: int) -> None:
    record = encode_transaction("id", TRANSACTION, version)
    assert record.value is not None
    assert record.value[:2] == b"\0\x01"
    assert decode_transaction(record.value) == TRANSACTION


def test_empty_state_has_null_partitions_as_kafka_writes_them() -> None:
    empty = Transaction(producer_id=1, producer_epoch=0, timeout_ms=3, state=TransactionState.EMPTY, last_update_ms=5)
    record = encode_transaction("id", empty, 0)
    assert record.value is not None
    assert record.value[17:21] == b"\xff\xff\xff\xff"
    assert decode_transaction(record.value) == empty


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x07", b"\0\0\0", b"\0\0" + bytes(14) + b"\x63" + bytes(40)])
def test_unreadable_value_is_an_error(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_transaction(value)
