"""Unsigned varints: seven bits a byte, least significant first (KIP-482)."""

from typing import Final

from broker.wire.errors import WireError
from broker.wire.schema import Buffer

_SHIFT_MAX: Final = 28  # 32 bits take five bytes


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The number at `position`, and where it ends.

    Raises IndexError where the buffer ends, WireError past five bytes.
    """
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:  # most lengths that exceed one byte
        return value & 0x7F | byte << 7, position + 2
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _SHIFT_MAX:
            raise WireError("a varint of more than five bytes")


def encode_varint(number: int) -> bytes:
    if 0x7F < number < 0x4000:  # most lengths that exceed one byte
        return bytes((number & 0x7F | 0x80, number >> 7))
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
