"""Partitioners: functions that choose the partition of a record. Pure: random numbers come from the caller.

A record with a key goes to the partition of the key's murmur2 hash, as from Kafka's Java client, so producers in
different languages agree. Records without a key go to one partition until a batch is full, then to another (KIP-794).
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from struct import Struct
from typing import Final, Protocol

import attrs

_MASK: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_WORD: Final = Struct("<I")
_POSITIVE: Final = 0x7FFFFFFF
# Hashes of keys are remembered: most topics have few keys or use each one in bursts.
_REMEMBERED_KEYS_MAX: Final = 10_000


@attrs.frozen
class TopicPartitions:
    """The partitions of a topic are numbered from 0 to `count` - 1; `available` are those with a leader."""

    count: int
    available: Sequence[int]


class Partitioner(Protocol):
    """Chooses the partition of each record that the caller has not given one. Any callable of this form will do."""

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, /) -> int: ...


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 hash (Utils.java), unsigned."""
    size = len(data)
    hashed = _SEED ^ size
    tail_at = size & ~3
    for (word,) in _WORD.iter_unpack(data[:tail_at]):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    if tail_at != size:
        hashed = (hashed ^ int.from_bytes(data[tail_at:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


class KeyHashes:
    """The positive hashes of keys: `hashes[key] % count` is the partition. Remembers a bounded number of them."""

    def __init__(self) -> None:
        self._remembered: dict[bytes, int] = {}

    def __getitem__(self, key: bytes) -> int:
        hashed = self._remembered.get(key)
        if hashed is None:
            if len(self._remembered) >= _REMEMBERED_KEYS_MAX:
                self._remembered.clear()
            hashed = self._remembered[key] = murmur2(key) & _POSITIVE
        return hashed


class RoundRobinPartitioner:
    """Sends the records of each topic to its partitions in turn, also those with a key (RoundRobinPartitioner.java)."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, /) -> int:
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        if partitions.available:
            return partitions.available[turn % len(partitions.available)]
        return turn % partitions.count


def choose_sticky_partition(
    partitions: TopicPartitions,
    rng: Random,
    *,
    queue_length: Callable[[int], int] | None = None,
    is_slow: Callable[[int], bool] = lambda partition: False,
) -> int:
    """The next partition for records without a key (KIP-794).

    With `queue_length`, the number of batches that wait for each partition, partitions with shorter queues are chosen
    more often: the weight of a partition is the longest queue's length plus one minus its own. Partitions for which
    `is_slow` says True are left out (`partitioner.availability.timeout.ms`), unless all are slow.
    """
    candidates = partitions.available or range(partitions.count)
    if queue_length is None or partitions.count < 2 or not partitions.available:
        return rng.choice(candidates)
    fast = [partition for partition in candidates if not is_slow(partition)] or candidates
    lengths = [queue_length(partition) for partition in fast]
    longest = max(lengths)
    sums = list(accumulate(longest + 1 - length for length in lengths))
    return fast[bisect_right(sums, rng.randrange(sums[-1]))]
