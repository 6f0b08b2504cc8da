"""Maps each key to its last offset, in bounded memory."""

from hashlib import blake2b
from typing import Final

# Longer keys are replaced by a hash of 33 bytes. It is longer than every key that is not hashed, so the two cannot be
# confused, and long enough that no two keys are expected to have the same hash.
_KEY_SIZE_MAX: Final = 32
_HASH_SIZE: Final = 33

# The most memory that an entry takes: a key of that size, its offset, and its slot in a dictionary that has just grown,
# while the smaller table before it still exists.
ENTRY_BYTES: Final = 240

NO_OFFSET: Final = -1


class OffsetMap:
    """Holds as many keys as fit into `memory_bytes`, filled up to `load_factor`, which is taken into 0..1.

    `end_offset` is the end of the part of the log whose keys are all in the map.
    """

    __slots__ = ("_keys_max", "_offsets", "end_offset")

    def __init__(self, memory_bytes: int, load_factor: float = 1.0) -> None:
        share = min(max(0.0, load_factor), 1.0)  # 0 if it is not a number
        self._keys_max = max(int(memory_bytes * share) // ENTRY_BYTES, 1)  # otherwise no log could be cleaned
        self._offsets: dict[bytes, int] = {}
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Set `offset` as the last offset of `key`."""
        if len(key) > _KEY_SIZE_MAX:
            key = blake2b(key, digest_size=_HASH_SIZE).digest()
        self._offsets[key] = offset

    def last_offset(self, key: bytes) -> int:
        """The last offset of `key`; -1 if it is not in the map."""
        if len(key) > _KEY_SIZE_MAX:
            key = blake2b(key, digest_size=_HASH_SIZE).digest()
        return self._offsets.get(key, NO_OFFSET)
