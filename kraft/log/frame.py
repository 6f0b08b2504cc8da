"""The format of a batch on disk: one frame with one checksum.

    magic    4 bytes   b"KRL1"
    size     uint32    bytes after the checksum
    crc      uint32    CRC-32C of those bytes
    durable  uint64    the size of the file that was known to be durable when the frame was written
    base offset int64, epoch int32, append time int64 (ms), kind uint8 (a BatchKind), count uint24
    records            a msgpack array of byte strings

`durable` distinguishes two kinds of damage. A power cut may tear bytes that were not synced; they were not acknowledged
and can be cut off. Damage to synced bytes is a failure of the disk: those entries may have been acknowledged, so they
must not be dropped silently.
"""

import struct

import attrs
import msgpack

from kraft import lazy_attrs
from kraft.checksums import crc32c
from kraft.log.flipped_bit import flipped_bit
from kraft.replicated_log import Batch, BatchKind

MAGIC = b"KRL1"
_PREFIX = struct.Struct(">4sII")
_HEADER = struct.Struct(">QqiqI")


@lazy_attrs.frozen
class Frame:
    """A batch in a file. `end` is the position after it, `durable_size` the durable size when it was written."""

    batch: Batch
    durable_size: int
    end: int


def encode_frame(batch: Batch, durable_size: int) -> bytes:
    kind_and_count = batch.kind << 24 | len(batch.records)
    header = _HEADER.pack(durable_size, batch.base_offset, batch.epoch, batch.append_time_ms, kind_and_count)
    body: bytes = header + msgpack.packb(batch.records)
    return _PREFIX.pack(MAGIC, len(body), crc32c(body)) + body


def decode_frame(data: memoryview, position: int) -> Frame | None:
    """Return the frame that starts at `position`, or None if there is no intact one."""
    start = position + _PREFIX.size
    if len(data) < start + _HEADER.size:
        return None
    magic, size, crc = _PREFIX.unpack_from(data, position)
    end = start + size
    if magic != MAGIC or end > len(data) or size < _HEADER.size or not _is_intact(data[start:end], crc):
        return None
    durable_size, base_offset, epoch, append_time_ms, kind_and_count = _HEADER.unpack_from(data, start)
    try:
        records = msgpack.unpackb(data[start + _HEADER.size : end], use_list=False)
        kind = BatchKind(kind_and_count >> 24)
    except (ValueError, msgpack.UnpackException):
        return None
    is_array = isinstance(records, tuple) and all(isinstance(record, bytes) for record in records)
    if not is_array or len(records) != kind_and_count & 0xFFFFFF or base_offset < 0 or epoch < 0:
        return None
    return Frame(Batch(base_offset, epoch, append_time_ms, records, kind), durable_size, end)


def decode_flipped_frame(data: memoryview, position: int) -> Frame | None:
    """Return the frame that starts at `position` if it is intact but for one flipped bit, else None."""
    if len(data) < position + _PREFIX.size:
        return None
    for at in range(4 + 4):  # the magic and the size
        for bit in range(8):
            frame = _decode_with_flipped(data, position, at, bit)
            if frame is not None:
                return frame
    magic, size, crc = _PREFIX.unpack_from(data, position)
    start = position + _PREFIX.size
    if magic != MAGIC or start + size > len(data):
        return None
    difference = crc32c(data[start : start + size]) ^ crc
    if difference.bit_count() == 1:  # a bit of the checksum itself
        at, bit = divmod(difference.bit_length() - 1, 8)
        return _decode_with_flipped(data, position, _PREFIX.size - 1 - at, bit)
    found = flipped_bit(difference, size)
    return None if found is None else _decode_with_flipped(data, position, _PREFIX.size + found[0], found[1])


def _decode_with_flipped(data: memoryview, position: int, at: int, bit: int) -> Frame | None:
    """Return the frame at `position`, with a bit of its byte `at` flipped, if it is intact then."""
    prefix = bytearray(data[position : position + _PREFIX.size])
    if at < len(prefix):
        prefix[at] ^= 1 << bit
    end = position + _PREFIX.size + int.from_bytes(prefix[4:8], "big")
    if bytes(prefix[:4]) != MAGIC or end > len(data):
        return None
    copy = bytearray(data[position:end])
    copy[at] ^= 1 << bit
    frame = decode_frame(memoryview(copy), 0)
    return None if frame is None else attrs.evolve(frame, end=end)


def _is_intact(body: memoryview, crc: int) -> bool:
    """True if `crc` is the checksum of `body`."""
    return crc32c(body) == crc
