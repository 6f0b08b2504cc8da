"""The header of a record batch v2 (KIP-98): reading, checking and patching it without touching the records.

    base offset int64 | length int32 | partition leader epoch int32 | magic int8 | crc uint32 | attributes int16
    | last offset delta int32 | base timestamp int64 | max timestamp int64 | producer id int64 | producer epoch int16
    | base sequence int32 | count int32 | records, compressed as a whole when the attributes say so

`length` counts what follows it. The CRC-32C covers everything from the attributes on, so a leader assigns offsets and
its epoch in place without computing it again.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

from broker.wire.records.compression import Compression
from broker.wire.records.errors import CorruptBatch, UnsupportedMagic
from kraft import lazy_attrs
from kraft.checksums import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

# The fields in the order of `BatchHeader`'s arguments; for hot paths that want a field or two and no object.
HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size

# Base offset and length: what stands in front of the bytes that `length` counts.
LOG_OVERHEAD: Final = 12
LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD

MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

# The attributes that a producer sets. The others are set by brokers, or have no meaning yet.
PRODUCER_ATTRIBUTES: Final = COMPRESSION_MASK | TRANSACTIONAL_FLAG
FOREIGN_ATTRIBUTES: Final = ~PRODUCER_ATTRIBUTES

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

SEQUENCE_MAX: Final = 2**31 - 1

_COMPRESSIONS: Final = tuple(Compression)

_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_LEADER_EPOCH_POSITION: Final = 12
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 35


class TimestampType(IntEnum):
    """The origin of a batch's timestamps: the producer, or the leader that appended it (`message.timestamp.type`)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@lazy_attrs.define(eq=True)
class BatchHeader:
    """The fixed part of a batch. Times are ms since the epoch; the records' offsets and sequences count from the base.

    After compaction `count` may be smaller than `last_offset_delta` + 1: offsets outlive the records that had them.
    """

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, or NO_SEQUENCE. Sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def compression(self) -> Compression:
        """Raises CorruptBatch for one of the three codes without a codec."""
        code = self.attributes & COMPRESSION_MASK
        if code >= len(_COMPRESSIONS):
            raise CorruptBatch(f"Unknown compression type id: {code}")
        return _COMPRESSIONS[code]

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which tombstones and markers may be removed (KIP-534). It is stored in place of the base
        timestamp.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def read_header(buf: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`; of the batch's bytes only the header need be in `buf`.

    Raises CorruptBatch when there are fewer bytes, or when length or magic cannot be a batch's; UnsupportedMagic for
    magic 0 and 1.
    """
    if len(buf) - position < HEADER_SIZE:
        raise CorruptBatch(f"{len(buf) - position} bytes are too few for a record batch's header of {HEADER_SIZE}")
    header = BatchHeader(*HEADER.unpack_from(buf, position))
    if header.magic != MAGIC or header.length < LENGTH_MIN:
        raise _bad_header(header)
    return header


def _bad_header(header: BatchHeader) -> CorruptBatch:
    if header.magic in (0, 1):
        return UnsupportedMagic(f"Record batch has magic {header.magic}, only magic {MAGIC} is supported")
    if header.magic != MAGIC:
        return CorruptBatch(f"Invalid magic found in record: {header.magic}")
    return CorruptBatch(
        f"Record batch is corrupt (the size {header.size} is smaller than the minimum allowed overhead {HEADER_SIZE})"
    )


def iter_headers(buf: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch in `buf` from `position` on.

    Stops without an error at a tail too short for the batch it begins, which is how a Fetch response cut at its byte
    limit and a torn write both end; a caller that allows no tail compares the last position and size with len(buf).
    Raises as `read_header` does, once it gets there.
    """
    end = len(buf)
    while end - position >= HEADER_SIZE:
        header = read_header(buf, position)
        following = position + header.size
        if following > end:
            return
        yield position, header
        position = following


def check_crc(buf: Buffer, position: int, header: BatchHeader) -> None:
    """Compare the batch's stored CRC-32C with its bytes; the whole batch has to be in `buf`. Raises CorruptBatch."""
    end = position + header.length + LOG_OVERHEAD
    if end > len(buf):
        raise CorruptBatch(f"Record batch of {header.size} bytes ends after {len(buf) - position}")
    computed = crc32c(memoryview(buf)[position + ATTRIBUTES_POSITION : end])
    if computed != header.crc:
        raise CorruptBatch(f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})")


def build_batch(
    records_data: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """A whole batch, sealed with its CRC. `records_data` is compressed already where the attributes say so."""
    header = bytearray(
        HEADER.pack(
            base_offset,
            LENGTH_MIN + len(records_data),
            leader_epoch,
            MAGIC,
            0,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        )
    )
    _CRC.pack_into(header, CRC_POSITION, crc32c(records_data, crc32c(header[ATTRIBUTES_POSITION:])))
    return b"".join((header, records_data))


def patch(buf: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the offset and epoch a leader assigns into the batch at `position`. Both stand outside the CRC."""
    _BASE_OFFSET.pack_into(buf, position, base_offset)
    _LEADER_EPOCH.pack_into(buf, position + _LEADER_EPOCH_POSITION, leader_epoch)


def restamp(
    buf: bytearray | memoryview, position: int, header: BatchHeader, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Set timestamp type and max timestamp of a producer's batch, in `buf` and in `header`, and seal it with a new CRC.

    With LOG_APPEND_TIME every record has the max timestamp, whatever its own delta says; so this is all it takes.
    Attributes that are not a producer's are cleared.
    """
    attributes = header.attributes & PRODUCER_ATTRIBUTES
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(buf, position + ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(buf, position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    header.attributes = attributes
    header.max_timestamp = max_timestamp
    header.crc = seal(buf, position, header.size)


def seal(buf: bytearray | memoryview, position: int, size: int) -> int:
    """Compute and store the CRC of the batch of `size` bytes at `position`, and return it."""
    crc: int = crc32c(memoryview(buf)[position + ATTRIBUTES_POSITION : position + size])
    _CRC.pack_into(buf, position + CRC_POSITION, crc)
    return crc
