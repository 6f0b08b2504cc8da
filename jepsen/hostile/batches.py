"""Valid record batches, and batches with a wrong header, wrong records or wrong compressed bytes."""

from random import Random
from typing import Final

from broker.wire.records import HEADER, HEADER_SIZE, LOG_OVERHEAD, Compression, Record, encode_batch
from broker.wire.records.batch import seal
from broker.wire.records.compression import compress

_BASE_TIMESTAMP: Final = 1_700_000_000_000
_COMPRESSIONS: Final = tuple(Compression)
# The fields of the header in the order of `HEADER`, with replacement values for each.
_INT16: Final = (-1, 0, 1, 8, 15, 16, 32, 48, 64, 2**15 - 1, -(2**15))
_INT32: Final = (-1, 0, 1, 2, 100, 2**31 - 1, -(2**31), 2**31 - 2)
_INT64: Final = (-1, 0, 1, 1000, 2**63 - 1, -(2**63), 2**63 - 2, 2**31)
_HEADER_VALUES: Final = (_INT64, None, _INT32, (0, 1, 2, 3, -1), None, _INT16, _INT32, _INT64, _INT64, _INT64, _INT16)
_VARINTS: Final = (
    b"\xff" * 10,
    b"\xff" * 9 + b"\x01",
    b"\xfe\xff\xff\xff\x0f",
    b"\x80" * 4 + b"\x00",
    b"\x01",
    b"\x00",
)


def records_of(rng: Random, count: int) -> list[Record]:
    def content() -> bytes | None:
        return rng.choice((None, b"", b"k", b"value", bytes(rng.randrange(200)), rng.randbytes(rng.randrange(60))))

    headers = (("header", b"h"), ("", None))
    return [
        Record(timestamp=_BASE_TIMESTAMP + index, key=content(), value=content(), headers=headers[: rng.randrange(3)])
        for index in range(count)
    ]


def sound_batch(
    rng: Random, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1, count: int | None = None
) -> bytes:
    return encode_batch(
        records_of(rng, rng.choice((1, 1, 2, 3, 20)) if count is None else count),
        compression=rng.choice(_COMPRESSIONS) if rng.random() < 0.5 else Compression.NONE,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def spoiled_batch(rng: Random) -> bytes:
    """An invalid batch. Its checksum is usually correct, so that the node checks the other fields."""
    batch = bytearray(sound_batch(rng))
    rng.choice((_wrong_header, _wrong_records, _wrong_compression, _wrong_bytes))(rng, batch)
    if rng.random() < 0.8 and len(batch) >= HEADER_SIZE:
        seal(batch, 0, len(batch))
    return bytes(batch)


def _wrong_header(rng: Random, batch: bytearray) -> None:
    fields = list(HEADER.unpack_from(batch))
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.choice((0, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12))
        values = _INT32 if place > 10 else _HEADER_VALUES[place]
        fields[place] = rng.choice(values or _INT32)
    HEADER.pack_into(batch, 0, *fields)


def _wrong_records(rng: Random, batch: bytearray) -> None:
    """Overwrite, cut off or repeat some bytes of the records."""
    if len(batch) <= HEADER_SIZE:
        return
    place = rng.randrange(HEADER_SIZE, len(batch))
    kind = rng.randrange(4)
    if kind == 0:
        varint = rng.choice(_VARINTS)
        batch[place : place + len(varint)] = varint
    elif kind == 1:
        del batch[place:]
    elif kind == 2:
        batch += batch[place:] * rng.randrange(1, 4)
    else:
        batch[place] ^= 1 << rng.randrange(8)
    _set_length(batch)


def _wrong_compression(rng: Random, batch: bytearray) -> None:
    """Replace the records with random bytes marked as compressed, or with compressed random bytes."""
    compression = rng.choice(_COMPRESSIONS)
    junk = rng.randbytes(rng.randrange(100))
    if compression is not Compression.NONE and rng.random() < 0.6:
        junk = compress(compression, rng.choice((junk, bytes(100_000), b"")), None)
        if rng.random() < 0.3:
            junk = junk[: rng.randrange(len(junk) + 1)]
    batch[HEADER_SIZE:] = junk
    fields = list(HEADER.unpack_from(batch))
    fields[5] = rng.choice((int(compression), rng.randrange(8)))
    fields[12] = rng.choice((fields[12], *_INT32))
    HEADER.pack_into(batch, 0, *fields)
    _set_length(batch)


def _wrong_bytes(rng: Random, batch: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 4))):
        batch[rng.randrange(len(batch))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    if rng.random() < 0.3:
        del batch[rng.randrange(len(batch)) :]


def _set_length(batch: bytearray) -> None:
    batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
