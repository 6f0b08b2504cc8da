"""Control records have Kafka's encoding."""

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from broker.wire.records import (
    ControlRecordType,
    EndTransactionMarker,
    InvalidRecord,
    Record,
    check_crc,
    control_type,
    encode_end_transaction_marker,
    iter_records,
    read_end_transaction_marker,
    read_header,
)
from broker.wire.records.control import control_key


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transactions_end_is_a_control_batch_of_its_producer(is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit, coordinator_epoch=6)
    batch = encode_end_transaction_marker(
        marker, timestamp=1_700_000_000_000, producer_id=9, producer_epoch=3, base_offset=40, leader_epoch=2
    )
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.is_control, header.is_transactional, header.count) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, -1)
    assert (header.base_offset, header.partition_leader_epoch, header.max_timestamp) == (40, 2, 1_700_000_000_000)
    (record,) = iter_records(batch, 0, header)
    assert record.key is not None
    assert record.key.hex() == ("00000001" if is_commit else "00000000")
    assert record.value is not None
    assert record.value.hex() == "000000000006"
    assert read_end_transaction_marker(record) == marker
    assert ControlRecord.parse(record.key) == (COMMIT_MARKER if is_commit else ABORT_MARKER)


def test_types_are_kafkas() -> None:
    assert [control_type(bytes([0, 0, 0, code])).name for code in range(7)] == [
        "ABORT",
        "COMMIT",
        "LEADER_CHANGE",
        "SNAPSHOT_HEADER",
        "SNAPSHOT_FOOTER",
        "KRAFT_VERSION",
        "KRAFT_VOTERS",
    ]


def test_newer_types_and_versions_are_no_error() -> None:
    assert control_type(b"\x00\x00\x00\x63") is ControlRecordType.UNKNOWN
    assert control_type(b"\x00\x00\xff\xff") is ControlRecordType.UNKNOWN
    assert control_type(b"\x00\x05\x00\x01more") is ControlRecordType.COMMIT
    newer = Record(key=b"\x00\x00\x00\x01", value=b"\x00\x09\x00\x00\x00\x07more")
    assert read_end_transaction_marker(newer) == EndTransactionMarker(True, 7)


def test_other_control_records_are_no_markers() -> None:
    assert read_end_transaction_marker(Record(key=control_key(ControlRecordType.LEADER_CHANGE))) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"", bytes(6)),
        (b"\x00\x00\x00", bytes(6)),
        (b"\xff\xff\x00\x01", bytes(6)),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", bytes(5)),
        (b"\x00\x00\x00\x01", b"\xff\xff" + bytes(4)),
    ],
)
def test_a_malformed_control_record_is_invalid(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        read_end_transaction_marker(Record(key=key, value=value))
