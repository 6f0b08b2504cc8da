"""The offset index of a segment: the positions of some batches, with their last offsets."""

from pathlib import Path

import pytest

from broker.storage.offset_index import NO_OFFSET, OffsetIndex
from kraft.env import RealDisk

BASE, ENTRIES = 1000, 20


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    """The batch `number`, from 0 on, is the only one that ends with the offset BASE + 10 * `number` + 9."""
    index = OffsetIndex(RealDisk(), str(tmp_path / "1000.index"), BASE)
    index.reset()
    for number in range(ENTRIES):
        index.append(BASE + 10 * number + 9, 100 * number)
    return index


def entry(number: int) -> tuple[int, int]:
    return BASE + 10 * number + 9, 100 * number


def test_lookup_leads_to_the_last_entry_at_the_offset_or_before(index: OffsetIndex) -> None:
    for offset, position in ((BASE, 0), (BASE + 9, 0), (BASE + 18, 0), (BASE + 19, 100), (BASE + 5000, 1900)):
        assert index.lookup(offset) == position
    assert index.entry_before(BASE + 8) == (NO_OFFSET, 0)
    assert [index.entry_before(offset) for offset in (BASE + 9, BASE + 18, BASE + 19)] == [entry(0), entry(0), entry(1)]


def test_distance_of_entries_before_an_offset_doubles(index: OffsetIndex) -> None:
    """An index whose entries are all wrong costs few reads, and one with a few wrong entries a short scan."""
    assert list(index.entries_before(BASE + 199)) == [entry(number) for number in (19, 18, 16, 12, 4)]
    assert list(index.entries_before(BASE + 39)) == [entry(number) for number in (3, 2, 0)]
    assert list(index.entries_before(BASE + 8)) == []


def test_distance_of_entries_after_a_position_doubles(index: OffsetIndex) -> None:
    assert list(index.entries_from(0)) == [entry(number) for number in (0, 1, 3, 7, 15)]
    assert list(index.entries_from(1501)) == [entry(number) for number in (16, 17, 19)]
    assert list(index.entries_from(1901)) == []


def test_last_position_before_a_position(index: OffsetIndex) -> None:
    assert [index.last_position_before(position) for position in (0, 1, 100, 101, 9999)] == [0, 0, 0, 100, 1900]
