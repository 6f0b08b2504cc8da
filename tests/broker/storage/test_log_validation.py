"""Validation of a producer's batch: refused batches with their errors, and rewritten batches."""

from pathlib import Path
from typing import Any

import pytest

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.timestamp_search import find_max_timestamp
from broker.storage.validation import RecordsRejected
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import (
    Compression,
    Record,
    TimestampType,
    check_crc,
    encode_batch,
    iter_records,
    read_header,
)
from broker.wire.records.batch import HEADER, seal
from metadata.configuration import TOPIC_CONFIGS, TopicConfigs
from tests.support.logs import HOUR_MS, NOW_MS, batch, find_timestamp, open_log, read_all, slice_bytes

FIELDS = (
    "base_offset",
    "length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)


def changed(buffer: memoryview, **fields: int) -> memoryview:
    """The batch with other header fields and, unless the checksum is given, the matching checksum."""
    values = dict(zip(FIELDS, HEADER.unpack_from(buffer), strict=True)) | fields
    HEADER.pack_into(buffer, 0, *values.values())
    if "crc" not in fields and "length" not in fields:
        seal(buffer, 0, len(buffer))
    return buffer


def stored_header(log: Log, offset: int = 0) -> Any:
    data = slice_bytes(log.read(offset, 1 << 30, upper_bound=1 << 60, min_one_batch=True))
    header = read_header(data)
    check_crc(data, 0, header)
    return header


def refusal(log: Log, buffer: memoryview, *, now_ms: int = NOW_MS) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        log.append(buffer, leader_epoch=0, now_ms=now_ms)
    assert (log.log_end_offset, log.staged) == (0, False), "the log is as it was"
    return refused.value


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"magic": 1}, ErrorCode.INVALID_RECORD, "magic"),
        ({"magic": 3}, ErrorCode.CORRUPT_MESSAGE, "magic"),
        ({"crc": 17}, ErrorCode.CORRUPT_MESSAGE, r"stored crc = 17"),
        ({"length": 20}, ErrorCode.CORRUPT_MESSAGE, "minimum"),
        ({"length": 1000}, ErrorCode.CORRUPT_MESSAGE, "ends after"),
        ({"base_offset": 5}, ErrorCode.INVALID_RECORD, "should be 0, but it is 5"),
        ({"count": 3}, ErrorCode.INVALID_RECORD, "Inconsistent batch offset range"),
        ({"count": 0}, ErrorCode.INVALID_RECORD, "Invalid reported count"),
        ({"last_offset_delta": -2}, ErrorCode.INVALID_RECORD, "invalid offset range"),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD, "not allowed to write control records"),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD, "Invalid sequence number -1"),
        ({"attributes": 0x08}, ErrorCode.INVALID_TIMESTAMP, "rejected"),
    ],
)
def test_invalid_headers_are_refused(tmp_path: Path, fields: dict[str, int], code: ErrorCode, message: str) -> None:
    error = refusal(open_log(tmp_path / "t-0"), changed(batch(b"a", b"b"), **fields))
    assert error.code is code
    assert message in error.message


@pytest.mark.parametrize("size", [0, 1, 11, 12, 60])
def test_incomplete_header_is_refused(tmp_path: Path, size: int) -> None:
    assert refusal(open_log(tmp_path / "t-0"), batch(b"x")[:size]).code is ErrorCode.CORRUPT_MESSAGE


def test_more_than_one_batch_is_refused(tmp_path: Path) -> None:
    two = memoryview(bytearray(bytes(batch(b"a")) + bytes(batch(b"b"))))
    error = refusal(open_log(tmp_path / "t-0"), two)
    assert error.code is ErrorCode.INVALID_RECORD
    assert "more than one record batch" in error.message


def test_damaged_byte_of_the_body_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    whole = bytes(batch(b"value", producer_id=1, producer_epoch=0, base_sequence=0))
    for at in range(21, len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        assert refusal(log, memoryview(damaged)).code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_size_limit_applies_to_the_whole_batch(tmp_path: Path) -> None:
    size = len(batch(b"x" * 100))
    log = open_log(tmp_path / "t-0", LogConfig(max_message_bytes=size - 1))
    error = refusal(log, batch(b"x" * 100))
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert f"is {size} bytes which exceeds the maximum configured value of {size - 1}" in error.message
    log.configure(LogConfig(max_message_bytes=size))
    log.append(batch(b"x" * 100), leader_epoch=0, now_ms=NOW_MS)


def test_large_record_of_a_compressed_batch_is_refused(tmp_path: Path) -> None:
    large = encode_batch([Record(value=bytes(1000), timestamp=NOW_MS)], compression=Compression.GZIP)
    log = open_log(tmp_path / "t-0", LogConfig(max_decompressed_message_bytes=1000))
    error = refusal(log, memoryview(bytearray(large)))
    assert error.code is ErrorCode.INVALID_RECORD
    assert "exceeds the configured maximum record size of 1000" in error.message


def test_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=150))
    assert refusal(log, batch(b"x" * 100)).code is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_batch_may_be_as_large_as_a_segment(tmp_path: Path, compression: Compression) -> None:
    """Also a batch that is stored with another compression than the producer's."""
    size = len(batch(b"x" * 100))
    sent = encode_batch([Record(value=b"x" * 100, timestamp=NOW_MS)], compression=compression)
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=size - 1, compression_type="uncompressed"))
    assert refusal(log, memoryview(bytearray(sent))).code is ErrorCode.RECORD_LIST_TOO_LARGE
    log.config = LogConfig(segment_bytes=size, compression_type="uncompressed")
    log.append(memoryview(bytearray(sent)), leader_epoch=0, now_ms=NOW_MS)
    log.commit()
    assert stored_header(log).size == size


def test_timestamps_too_far_ahead_are_rejected_by_record(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(message_timestamp_after_max_ms=1000))
    records = [Record(timestamp=NOW_MS + ahead, value=b"x") for ahead in (0, 1001, 1000, 5000)]
    error = refusal(log, memoryview(bytearray(encode_batch(records))))
    assert isinstance(error, RecordsRejected)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in error.record_errors] == [1, 3]
    log.append(batch(b"x", timestamp=NOW_MS + 1000), leader_epoch=0, now_ms=NOW_MS)


def test_timestamps_too_far_in_the_past_are_rejected(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(message_timestamp_before_max_ms=1000))
    records = [Record(timestamp=NOW_MS, value=b"x"), Record(timestamp=NOW_MS - 1001, value=b"x")]
    assert refusal(log, memoryview(bytearray(encode_batch(records)))).code is ErrorCode.INVALID_TIMESTAMP
    log.append(batch(b"x", timestamp=NOW_MS - 1000), leader_epoch=0, now_ms=NOW_MS)
    log.append(batch(b"x", timestamp=-1), leader_epoch=0, now_ms=NOW_MS)


def dated_batch(*deltas: int, **fields: int) -> memoryview:
    """A batch whose records are so many ms after NOW_MS, with header fields that need not match."""
    records = [Record(timestamp=NOW_MS + delta, value=b"x") for delta in deltas]
    compression = Compression(fields.pop("compression", Compression.NONE))
    return changed(memoryview(bytearray(encode_batch(records, compression=compression))), **fields)


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("claimed", [-1, 0, NOW_MS - 1, NOW_MS + 3 * HOUR_MS])
def test_max_timestamp_that_cannot_be_right_is_computed(tmp_path: Path, compression: Compression, claimed: int) -> None:
    """Some clients leave it unset. Lookups by time and retention depend on it."""
    log = open_log(tmp_path / "t-0")
    log.append(dated_batch(0, 40, 20, max_timestamp=claimed, compression=compression), leader_epoch=0, now_ms=NOW_MS)
    log.commit()
    assert stored_header(log).max_timestamp == NOW_MS + 40
    for found in (find_max_timestamp(log), find_timestamp(log, NOW_MS + 1)):
        assert found is not None
        assert (found.offset, found.timestamp) == (1, NOW_MS + 40)
    assert log.segments.active.retention_timestamp == NOW_MS + 40


@pytest.mark.parametrize("compression", list(Compression))
def test_bounds_of_timestamps_hold_for_records_of_a_header_without_one(
    tmp_path: Path, compression: Compression
) -> None:
    log = open_log(tmp_path / "t-0")
    error = refusal(log, dated_batch(0, 0, 2 * HOUR_MS, 0, max_timestamp=-1, compression=compression))
    assert isinstance(error, RecordsRejected)
    assert (error.code, [one.batch_index for one in error.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [2])


def test_max_timestamp_before_a_record_that_is_checked_is_computed(tmp_path: Path) -> None:
    for at, deltas in enumerate([(7,), (7, 0), (0, 7), (0, 7, 0), (0, 0, 0, 7)]):
        log = open_log(tmp_path / f"t-{at}")
        log.append(dated_batch(*deltas, max_timestamp=NOW_MS), leader_epoch=0, now_ms=NOW_MS)
        log.commit()
        assert stored_header(log).max_timestamp == NOW_MS + 7


@pytest.mark.parametrize(("base", "deltas"), [(2**63 - 5, (0, 10)), (-(2**63), (0, -1)), (-3, (0, -5, 2**63 - 1))])
def test_timestamps_that_do_not_fit_64_bits_are_refused(tmp_path: Path, base: int, deltas: tuple[int, ...]) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(message_timestamp_after_max_ms=2**63 - 1 - NOW_MS))
    records = [Record(timestamp=delta, value=b"x") for delta in deltas]
    sent = changed(memoryview(bytearray(encode_batch(records, max_timestamp=NOW_MS))), base_timestamp=base)
    assert refusal(log, sent).code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("attributes", [0x40, 0x80, 0x1000, -0x8000])
def test_attributes_that_only_brokers_set_are_cleared(tmp_path: Path, attributes: int) -> None:
    """A delete horizon of a producer would have compaction drop its tombstones too early, or never (KIP-534)."""
    log = open_log(tmp_path / "t-0")
    log.append(dated_batch(0, 5, attributes=attributes), leader_epoch=0, now_ms=NOW_MS)
    log.commit()
    assert stored_header(log).attributes == 0


def test_negative_producer_epoch_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    error = refusal(log, batch(b"a", producer_id=8, producer_epoch=-2, base_sequence=0))
    assert error.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_log_append_time_overwrites_the_producers_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(message_timestamp_type="LogAppendTime"))
    info = log.append(batch(b"a", b"b", timestamp=5), leader_epoch=0, now_ms=NOW_MS)
    log.commit()
    assert info.log_append_time_ms == NOW_MS
    assert stored_header(log).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in read_all(log)] == [NOW_MS, NOW_MS]
    found = find_timestamp(log, NOW_MS)
    assert found is not None
    assert found.offset == 0
    latest = find_max_timestamp(log)
    assert latest is not None
    assert latest.offset == 0


def test_duplicate_returns_its_first_append_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(message_timestamp_type="LogAppendTime"))
    sent = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    log.append(batch(b"a", **sent), leader_epoch=0, now_ms=NOW_MS)
    info = log.append(batch(b"a", **sent), leader_epoch=0, now_ms=NOW_MS + 5)
    assert (info.duplicate, info.log_append_time_ms) == (True, NOW_MS)


def test_compacted_topics_require_keys(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(cleanup_policy=("compact", "delete")))
    records = [Record(timestamp=NOW_MS, key=b"k", value=b"x"), Record(timestamp=NOW_MS, value=b"x")]
    error = refusal(log, memoryview(bytearray(encode_batch(records))))
    assert isinstance(error, RecordsRejected)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in error.record_errors] == [1]
    log.append(batch(b"x", key=b"k"), leader_epoch=0, now_ms=NOW_MS)


def test_records_that_are_decoded_must_be_well_formed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(cleanup_policy=("compact",)))
    buffer = batch(b"value", key=b"k", compression=Compression.GZIP)
    buffer[-1] ^= 0xFF
    seal(buffer, 0, len(buffer))
    assert refusal(log, buffer).code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", list(Compression))
def test_compression_type_recompresses_batches_of_other_codecs(
    tmp_path: Path, target: str, source: Compression
) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(compression_type=target))
    records = [
        Record(timestamp=NOW_MS + number, key=b"%d" % number, value=b"v" * 50, headers=(("h", None),))
        for number in range(20)
    ]
    sent = encode_batch(records, compression=source, producer_id=9, producer_epoch=3, base_sequence=4)
    log.append(memoryview(bytearray(sent)), leader_epoch=6, now_ms=NOW_MS)
    log.commit()
    header = stored_header(log)
    assert header.compression is (Compression.NONE if target == "uncompressed" else Compression.of(target))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 4)
    assert (header.partition_leader_epoch, header.max_timestamp) == (6, NOW_MS + 19)
    assert read_all(log) == list(iter_records(sent, 0, read_header(sent)))


def test_batch_that_recompression_makes_too_large_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(compression_type="uncompressed", max_message_bytes=1000))
    error = refusal(log, batch(b"x" * 5000, compression=Compression.ZSTD))
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_batches_are_stored_as_they_came(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    sent = batch(b"x" * 500, compression=Compression.ZSTD)
    before = bytes(sent)
    log.append(sent, leader_epoch=0, now_ms=NOW_MS)
    log.commit()
    stored = slice_bytes(log.read(0, 1 << 20, upper_bound=1, min_one_batch=True))
    assert stored[17:] == before[17:]


def test_log_config_has_the_values_of_its_topic() -> None:
    values = TOPIC_CONFIGS.parse(
        {
            "segment.bytes": "1048576",
            "internal.segment.bytes": "500",
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "compression.type": "zstd",
        }
    )
    config = LogConfig.of(TopicConfigs(values))
    assert config.segment_bytes == 500
    assert config.compact_enabled
    assert config.delete_enabled
    assert config.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.target_compression is Compression.ZSTD
    assert config.retention_ms == LogConfig().retention_ms
