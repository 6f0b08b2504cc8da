"""The offset map: the last offset of each key, in bounded memory."""

import tracemalloc

import pytest

from broker.storage.cleaner.offset_map import ENTRY_BYTES, OffsetMap


def test_last_offset_of_a_key_replaces_earlier_ones() -> None:
    offsets = OffsetMap(10 * ENTRY_BYTES)
    offsets.put(b"a", 1)
    offsets.put(b"b", 2)
    offsets.put(b"a", 3)
    assert [offsets.last_offset(key) for key in (b"a", b"b", b"c")] == [3, 2, -1]
    assert len(offsets) == 2


def test_offset_map_holds_the_keys_that_fit_and_at_least_one() -> None:
    offsets = OffsetMap(10 * ENTRY_BYTES, load_factor=0.5)
    for number in range(5):
        assert not offsets.is_full
        offsets.put(b"%d" % number, number)
    assert offsets.is_full
    assert not OffsetMap(0).is_full


@pytest.mark.parametrize("size", [8, 32, 33, 1000])
def test_entries_take_at_most_the_estimated_memory(size: int) -> None:
    count = 30_000
    offsets = OffsetMap(count * ENTRY_BYTES)
    tracemalloc.start()
    try:
        for number in range(count):
            offsets.put(b"%0*d" % (size, number), 10**9 + number)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert offsets.is_full
    assert peak <= count * ENTRY_BYTES
    assert offsets.last_offset(b"%0*d" % (size, 77)) == 10**9 + 77
