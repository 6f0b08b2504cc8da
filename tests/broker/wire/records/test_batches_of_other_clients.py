"""Batches exchanged with other implementations: each reads the other's, and uncompressed ones are equal."""

from collections.abc import Iterable
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import cramjam
import kafka.codec
import kafka.record.default_records as kafka_python_records
import pytest

from broker.wire.records import Compression, Record, check_crc, check_records, encode_batch, iter_records, read_header

TIME = 1_700_000_000_000
RECORDS = [
    Record(0, TIME, b"key", b"value", (("trace", b"1"), ("empty", b""), ("none", None), ("ключ", b"\x00\xff"))),
    Record(1, TIME - 5_000, None, b"v" * 70_000),
    Record(2, TIME + 1, b"", None),
    Record(3, TIME + 3_600_000, b"tombstone", None),
    *(Record(offset, TIME + offset, b"%d" % offset, b"x" * offset) for offset in range(4, 300)),
]

kafka_python: Any = kafka_python_records
CLIENTS: dict[str, tuple[type[Any], type[Any]]] = {
    "kafka-python": (kafka_python.DefaultRecordBatchBuilder, kafka_python.DefaultRecordBatch),
    "aiokafka": (aiokafka_records._DefaultRecordBatchBuilderPy, aiokafka_records._DefaultRecordBatchPy),
    "aiokafka in C": (aiokafka_records.DefaultRecordBatchBuilder, aiokafka_records.DefaultRecordBatch),
}


class CramjamAsPythonSnappy:
    """The two functions of python-snappy that kafka-python calls, so that it finds a snappy implementation."""

    @staticmethod
    def compress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.compress_raw(data))

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(data))


@pytest.fixture(autouse=True)
def snappy_for_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka.codec, "snappy", CramjamAsPythonSnappy)


def built_by(builder_class: type[Any], compression: Compression, records: Iterable[Record]) -> bytes:
    builder = builder_class(
        magic=2,
        compression_type=int(compression),
        is_transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=11,
        batch_size=10**8,
    )
    for record in records:
        appended = builder.append(
            record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        assert appended is not None
    return bytes(builder.build())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("compression", list(Compression))
def test_their_batches_are_read(client: str, compression: Compression) -> None:
    batch = built_by(CLIENTS[client][0], compression, RECORDS)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.compression is compression
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 11)
    assert check_records(batch, 0, header) == TIME + 3_600_000 == header.max_timestamp
    assert list(iter_records(batch, 0, header)) == RECORDS


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("compression", list(Compression))
def test_our_batches_are_read_by_them(client: str, compression: Compression) -> None:
    batch = encode_batch(RECORDS, compression=compression, producer_id=77, producer_epoch=3, base_sequence=11)
    theirs = CLIENTS[client][1](bytearray(batch))
    assert theirs.validate_crc()
    found = [
        Record(each.offset, each.timestamp, each.key, each.value, tuple((name, value) for name, value in each.headers))
        for each in theirs
    ]
    assert found == RECORDS


@pytest.mark.parametrize("client", CLIENTS)
def test_uncompressed_batches_are_the_same_bytes(client: str) -> None:
    ours = encode_batch(RECORDS, leader_epoch=0, producer_id=77, producer_epoch=3, base_sequence=11, transactional=True)
    theirs = built_by(CLIENTS[client][0], Compression.NONE, RECORDS)
    # Producers leave the leader epoch to the leader: it is 0 in some and -1 in others.
    assert theirs[:12] + theirs[16:] == ours[:12] + ours[16:]
