"""Java's hash of a string, by which Kafka maps a group id or a transactional id to a partition."""

from functools import lru_cache
from operator import mul
from struct import unpack
from typing import Final

_FACTOR: Final = 31
_INT_MASK: Final = 0xFFFFFFFF
_INT_MIN_BITS: Final = 0x80000000
# How many characters are hashed in one step. A loop over each takes 3 ms for the longest group id, of 32 KB.
_PIECE: Final = 256
# Requests name the same ids again and again. The hashes of the latest ones are kept, apart from those of long ids.
_KEPT: Final = 4096
_KEPT_LENGTH_MAX: Final = 256
_POWERS: Final = tuple(pow(_FACTOR, exponent, _INT_MASK + 1) for exponent in range(_PIECE + 1))


def java_hash(text: str) -> int:
    """The absolute value of `String.hashCode()`; 0 for the smallest int, which has no absolute value."""
    return _kept_hash(text) if len(text) <= _KEPT_LENGTH_MAX else _hash(text)


def _hash(text: str) -> int:
    encoded = text.encode("utf-16-le", "surrogatepass")
    units = unpack(f"<{len(encoded) // 2}H", encoded)
    hashed = 0
    for first in range(0, len(units), _PIECE):
        piece = units[first : first + _PIECE]
        hashed = (hashed * _POWERS[len(piece)] + sum(map(mul, reversed(piece), _POWERS))) & _INT_MASK
    return abs(hashed - (hashed >> 31 << 32)) if hashed != _INT_MIN_BITS else 0


_kept_hash: Final = lru_cache(_KEPT)(_hash)
