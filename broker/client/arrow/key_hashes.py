"""Kafka's murmur2 hash (Utils.java) of many keys at once: the first word of all keys, then the second, and so on."""

from typing import Any, Final

from broker.client.arrow.byte_views import Int64s
from broker.client.arrow.encode import byte_sizes
from broker.client.arrow.libraries import np
from broker.client.producer.partitioners import murmur2

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = 0x7FFFFFFF
_WORD_SIZE: Final = 4
# Masks for the last word of a key, indexed by the key's size modulo 4.
_TAIL_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
# Longer keys are hashed one by one: one very long key would cost a round of array operations for each of its words.
_TOGETHER_BYTES_MAX: Final = 256

Uint32s = np.ndarray[tuple[int], np.dtype[np.uint32]]


def hash_keys(keys: Any) -> Int64s:
    """The hashes of an Arrow array of type binary, made positive: `hash % count` is the partition. 0 for null."""
    sizes = byte_sizes(keys)
    hashes = np.zeros(len(keys), np.int64)
    together = np.flatnonzero((sizes >= 0) & (sizes <= _TOGETHER_BYTES_MAX))
    if len(together):
        offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys)]
        hashes[together] = _hash_together(keys.buffers()[2], offsets[together].astype(np.int64), sizes[together])
    for row in np.flatnonzero(sizes > _TOGETHER_BYTES_MAX).tolist():
        hashes[row] = murmur2(keys[row].as_py())
    return hashes & _POSITIVE


def _hash_together(data: Any, starts: Int64s, sizes: Int64s) -> Uint32s:
    first, last = int(starts.min()), int((starts + sizes).max())
    content = b"" if data is None else bytes(memoryview(data)[first:last])
    padded = content + bytes(_WORD_SIZE)
    words = np.ndarray((len(content) + 1,), np.dtype("<u4"), padded, 0, (1,))
    positions = starts - first
    hashes = _SEED ^ sizes.astype(np.uint32)
    word_counts = sizes // _WORD_SIZE
    rows = np.flatnonzero(word_counts)
    index = 0
    while len(rows):
        word = words[positions[rows] + index * _WORD_SIZE] * _MULTIPLIER
        word = (word ^ (word >> np.uint32(24))) * _MULTIPLIER
        hashes[rows] = hashes[rows] * _MULTIPLIER ^ word
        index += 1
        rows = rows[word_counts[rows] > index]
    rows = np.flatnonzero(sizes % _WORD_SIZE)
    tails = words[positions[rows] + word_counts[rows] * _WORD_SIZE] & _TAIL_MASKS[sizes[rows] % _WORD_SIZE]
    hashes[rows] = (hashes[rows] ^ tails) * _MULTIPLIER
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _MULTIPLIER
    return hashes ^ (hashes >> np.uint32(15))
