"""Java's hash of a string, by which Kafka chooses the partition of a group or a transactional id."""

from struct import iter_unpack
from typing import Final

_FACTOR: Final = 31
_INT_MASK: Final = 0xFFFFFFFF
_INT_MIN_BITS: Final = 0x80000000


def java_hash(text: str) -> int:
    """The absolute value of String.hashCode(), with 0 for the one value that has none."""
    hashed = 0
    for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        hashed = (hashed * _FACTOR + unit) & _INT_MASK
    return abs(hashed - (hashed >> 31 << 32)) if hashed != _INT_MIN_BITS else 0
