"""Zigzag varints, as Protocol Buffers has them: seven bits a byte, the low ones first, the sign in the lowest bit."""

from typing import Final, TypeAlias

from broker.wire.records.errors import InvalidRecord

Buffer: TypeAlias = bytes | bytearray | memoryview

# The size of a 64-bit number.
VARINT_SIZE_MAX: Final = 10

_SINGLE_BYTES: Final = tuple(bytes([value]) for value in range(0x80))


def wrapped(value: int) -> int:
    """`value` as a signed 64-bit number, of which Java's arithmetic drops what does not fit."""
    return (value + 2**63) % 2**64 - 2**63


def varint(value: int) -> bytes:
    """`value`, a signed 64-bit number, encoded."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0x80:
        return _SINGLE_BYTES[zigzag]
    encoded = bytearray()
    while zigzag >= 0x80:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """The number at `at`, and the position after it.

    Raises IndexError where `data` ends within it, InvalidRecord where it goes on for longer than a 64-bit number does.
    """
    zigzag = data[at]
    if zigzag < 0x80:
        return (zigzag >> 1) ^ -(zigzag & 1), at + 1
    zigzag, at = read_zigzag(data, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def read_zigzag(data: Buffer, at: int) -> tuple[int, int]:
    """Like `read_varint`, for two bytes or more, in zigzag form: 0, -1, 1, -2, ... are 0, 1, 2, 3, ..."""
    first, second = data[at], data[at + 1]
    if second < 0x80 <= first:
        return first & 0x7F | second << 7, at + 2
    zigzag = 0
    for shift in range(0, 7 * VARINT_SIZE_MAX, 7):
        byte = data[at]
        at += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return zigzag & 0xFFFF_FFFF_FFFF_FFFF, at
    raise InvalidRecord(f"Varint is longer than {VARINT_SIZE_MAX} bytes")
