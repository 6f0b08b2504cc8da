"""Batches with a correct checksum and invalid records are refused, because no consumer could read past them.

Kafka's LogValidator answers INVALID_RECORD. Every test produces twice on one connection, so that the request is handled
by the general path and by the shortcut, and then sends a valid batch, which has to be the first in the log.
"""

import pytest
import zstandard

from broker.wire.errors import ErrorCode
from broker.wire.records import Compression
from broker.wire.records.batch import HEADER, HEADER_SIZE, seal
from broker.wire.records.varint import varint
from tests.support.requests import batch, create_topic, produce, read_values
from tests.support.wire_client import WireClient

COMPRESSED = [codec for codec in Compression if codec is not Compression.NONE]
MIB = 1 << 20


def rewritten(records: bytes, *, count: int | None = None, data: bytes | None = None) -> bytes:
    """The batch with a different number of records in its header, or with other record bytes; its checksum
    is correct.
    """
    fields = list(HEADER.unpack_from(records))
    data = records[HEADER_SIZE:] if data is None else data
    fields[1] += HEADER_SIZE + len(data) - len(records)
    if count is not None:
        fields[6], fields[12] = count - 1, count
    changed = bytearray(HEADER.pack(*fields) + data)
    seal(changed, 0, len(changed))
    return bytes(changed)


def record(offset_delta: int, *, key_size: int = -1, value: bytes = b"value", headers: int = 0) -> bytes:
    fields = b"\0\0" + varint(offset_delta) + varint(key_size) + varint(len(value)) + value + varint(headers)
    return varint(len(fields)) + fields


TWO = batch(b"one", b"two")

BAD = {
    "more records than there are": rewritten(TWO, count=3),
    "as many records as can be claimed": rewritten(batch(b"value"), count=2**31 - 1),
    "fewer records than there are": rewritten(TWO, count=1),
    "junk": rewritten(TWO, data=bytes(range(100, 160))),
    "no bytes": rewritten(TWO, data=b""),
    "bytes behind the last record": rewritten(TWO, data=TWO[HEADER_SIZE:] + b"\0"),
    "a single record that ends early": rewritten(batch(b"value"), data=record(0)[:-1]),
    "a key longer than its record": rewritten(batch(b"value"), data=record(0, key_size=100)),
    "headers that are not there": rewritten(batch(b"value"), data=record(0, headers=2)),
    "a negative number of headers": rewritten(batch(b"value"), data=record(0, headers=-1)),
    "a record with another offset": rewritten(batch(b"value"), data=record(1)),
    "the same offset twice": rewritten(TWO, data=record(0) * 2),
    "many records of which one is cut": rewritten(
        batch(*[b"value"] * 1000), data=batch(*[b"value"] * 1000)[HEADER_SIZE:-1]
    ),
    "compressed, as many records as can be claimed": rewritten(
        batch(b"value", compression=Compression.LZ4), count=2**31 - 1
    ),
    "compressed, more records than bytes": rewritten(batch(b"value", compression=Compression.GZIP), count=100),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=list(BAD))
async def test_records_that_no_consumer_could_read_are_refused(client: WireClient, bad: bytes) -> None:
    await create_topic(client)
    for _ in range(2):
        answer = await produce(client, bad)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert answer.error_message
    assert (await produce(client, batch(b"good"))).base_offset == 0
    assert (await produce(client, bad)).error_code == ErrorCode.INVALID_RECORD
    assert await read_values(client) == [b"good"]


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_bytes_that_are_not_of_the_claimed_compression_are_refused(
    client: WireClient, codec: Compression
) -> None:
    await create_topic(client)
    bad = rewritten(batch(b"value", compression=codec), data=b"\xff" * 50)
    assert (await produce(client, bad)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert await read_values(client) == []


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])  # snappy's ratio is 20 at most
@pytest.mark.parametrize("configs", [{"cleanup.policy": "compact"}, {"compression.type": "uncompressed"}])
async def test_batches_that_hold_far_more_than_their_size_are_refused(
    client: WireClient, codec: Compression, configs: dict[str, str]
) -> None:
    """If the broker has to decompress a batch, a few kilobytes must not make it read and write 100 MiB."""
    await create_topic(client, configs=configs)
    bomb = batch(bytes(100 * MIB - 100), key=b"key", compression=codec)
    answer = await produce(client, bomb)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE, answer.error_message
    assert "holds more than" in answer.error_message


async def test_twenty_zstd_bombs_are_refused_and_a_batch_that_compresses_well_is_not(client: WireClient) -> None:
    await create_topic(client, configs={"cleanup.policy": "compact"})
    data = zstandard.ZstdCompressor().compress(bytes(100 * MIB))
    bomb = rewritten(batch(b"value", key=b"key", compression=Compression.ZSTD), data=data)
    for _ in range(20):
        assert (await produce(client, bomb)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    sound = batch(bytes(2 * MIB - 1000), key=b"key", compression=Compression.ZSTD)
    assert (await produce(client, sound)).base_offset == 0
