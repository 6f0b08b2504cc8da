"""An immutable map. A changed copy shares its unchanged parts with the original.

The map is a tuple of small dicts. A change copies the tuple and the affected dicts: for 10,000 entries that is 512
pointers and some 20 entries, a few microseconds. A copy of one plain dict would cost 100 times as much.

Hash array mapped tries, as on PyPI, are as cheap to change. But they iterate in the order of Python's string hashes,
which differs between processes, and a replay of a simulated run needs the same order in all processes. Here the caller
provides the function that maps a key to its bucket, and dicts keep their insertion order, so maps with equal histories
iterate in the same order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, TypeVar
from zlib import crc32

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

BUCKET_ENTRIES = 32
_BUCKET_BITS = 5


def place_text(key: str) -> int:
    return crc32(key.encode("utf-8", "surrogatepass"))


def place_bytes(key: bytes) -> int:
    return crc32(key)


def place_number(key: int) -> int:
    """Adjacent numbers share a bucket, so a map of 0, 1, 2, ... that were inserted in order iterates in order."""
    return key >> _BUCKET_BITS


class PersistentMap(Generic[K, V]):
    """An immutable Mapping. `place` maps a key to a non-negative number, which selects the key's bucket."""

    __slots__ = ("_buckets", "_length", "_place")

    def __init__(self, place: Callable[[K], int], entries: Mapping[K, V] | None = None) -> None:
        self._place = place
        self._length = len(entries) if entries else 0
        self._buckets: tuple[dict[K, V], ...] = _spread(place, (entries or {}).items(), self._length)

    def changed(self, put: Mapping[K, V], remove: Iterable[K] = ()) -> "PersistentMap[K, V]":
        """A copy without the keys `remove`, which may be missing, and then with the entries `put`."""
        place, buckets = self._place, list(self._buckets)
        mask, own, length = len(buckets) - 1, set[int](), self._length
        for key in remove:
            index = place(key) & mask
            if key in buckets[index]:
                _own(buckets, own, index).pop(key)
                length -= 1
        for key, value in put.items():
            index = place(key) & mask
            bucket = _own(buckets, own, index)
            length += key not in bucket
            bucket[key] = value
        result = object.__new__(PersistentMap)
        result._place, result._length = place, length
        if length > len(buckets) * BUCKET_ENTRIES:
            result._buckets = _spread(place, chain.from_iterable(b.items() for b in buckets), length)
        else:
            result._buckets = tuple(buckets)
        return result

    @property
    def buckets(self) -> tuple[Mapping[K, V], ...]:
        """The parts that a map shares with its changed copies: an unchanged part is the same object in both."""
        return self._buckets

    def get(self, key: K, default: V | None = None) -> V | None:
        buckets = self._buckets
        return buckets[self._place(key) & (len(buckets) - 1)].get(key, default)

    def __getitem__(self, key: K) -> V:
        buckets = self._buckets
        return buckets[self._place(key) & (len(buckets) - 1)][key]

    def __contains__(self, key: K) -> bool:
        buckets = self._buckets
        return key in buckets[self._place(key) & (len(buckets) - 1)]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._buckets)

    def items(self) -> Iterable[tuple[K, V]]:
        if len(self._buckets) == 1:
            return self._buckets[0].items()
        return chain.from_iterable(bucket.items() for bucket in self._buckets)

    def values(self) -> Iterable[V]:
        if len(self._buckets) == 1:
            return self._buckets[0].values()
        return chain.from_iterable(bucket.values() for bucket in self._buckets)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PersistentMap):
            return NotImplemented
        return self._length == other._length and dict(self.items()) == dict(other.items())

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self.items())!r})"


def _spread(place: Callable[[K], int], entries: Iterable[tuple[K, V]], length: int) -> tuple[dict[K, V], ...]:
    """Distribute entries to buckets, whose number is a power of two that allows `length` entries to double."""
    count = 1
    while count * BUCKET_ENTRIES < length:
        count *= 2
    buckets: tuple[dict[K, V], ...] = tuple({} for _ in range(count))
    for key, value in entries:
        buckets[place(key) & (count - 1)][key] = value
    return buckets


def _own(buckets: list[dict[K, V]], own: set[int], index: int) -> dict[K, V]:
    if index not in own:
        own.add(index)
        buckets[index] = buckets[index].copy()
    return buckets[index]
