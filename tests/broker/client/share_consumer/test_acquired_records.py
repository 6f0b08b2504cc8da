"""The acquired records of a ShareFetch response: ranges, gaps, and batches that cannot be read (KIP-932)."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client import TopicPartition
from broker.client.share_consumer.acknowledgements import Source
from broker.client.share_consumer.acquired_records import AcquiredPartition, AcquiredRange
from broker.wire.api.share_fetch import AcquiredRecords
from broker.wire.errors import WireError
from broker.wire.records import EndTransactionMarker, encode_end_transaction_marker
from metadata.protocol import AcknowledgeType
from tests.support.scripted_broker import batch

SOURCE = Source(1, TopicPartition("topic", 0), b"t" * 16, 1)


def read(records: bytes, *acquired: tuple[int, int, int], check_crc: bool = True) -> list[AcquiredRange]:
    ranges = [AcquiredRecords(first_offset=first, last_offset=last, delivery_count=n) for first, last, n in acquired]
    partition = AcquiredPartition(SOURCE, records, ranges, inf, check_crc=check_crc)
    found = []
    while not partition.is_exhausted:
        found.append(partition.read())
    return found


def shown(found: AcquiredRange) -> tuple[int, int, list[int], list[tuple[int, int]]]:
    return found.first, found.last, [record.offset for record in found.records], list(found.gaps())


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def test_only_acquired_offsets_are_read_each_with_its_delivery_count() -> None:
    found = read(batch(0, 4) + batch(4, 4), (1, 2, 1), (5, 7, 3))
    assert [shown(each) for each in found] == [(1, 2, [1, 2], []), (5, 7, [5, 6, 7], [])]
    assert [each.delivery_count for each in found] == [1, 3]


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=0),
        base_offset=3,
        timestamp=0,
        producer_id=1,
        producer_epoch=0,
    )
    compacted = batch(0, 2) + marker + batch(6, 1)
    assert [shown(each) for each in read(compacted, (0, 8, 1))] == [(0, 8, [0, 1, 6], [(2, 5), (7, 8)])]
    assert [shown(each) for each in read(b"", (5, 9, 2))] == [(5, 9, [], [(5, 9)])]


@pytest.mark.parametrize("acquired", [[(0, 8, 1)], [(0, 2, 1), (3, 5, 1), (6, 8, 1)], [(0, 4, 1), (5, 8, 1)]])
def test_the_records_of_a_damaged_batch_are_rejected_and_others_are_read(acquired: list[tuple[int, int, int]]) -> None:
    found = read(batch(0, 3) + damaged(batch(3, 3)) + batch(6, 3), *acquired)
    assert [offset for each in found for offset in shown(each)[2]] == [0, 1, 2, 6, 7, 8]
    rejected = [each.unreadable for each in found if each.unreadable is not None]
    assert [offset for each in rejected for offset in range(each.first, each.last + 1)] == [3, 4, 5]
    assert {each.outcome for each in rejected} == {AcknowledgeType.REJECT}
    assert not any(list(each.gaps()) for each in found)


@pytest.mark.parametrize("acquired", [[(3, 5, 1)], [(4, 5, 1)], [(0, 0, 1), (4, 5, 1)]])
def test_a_damaged_batch_without_acquired_records_does_not_matter(acquired: list[tuple[int, int, int]]) -> None:
    found = read(batch(0, 1) + damaged(batch(1, 2)) + batch(3, 3), *acquired)
    assert [shown(each)[2] for each in found] == [list(range(first, last + 1)) for first, last, _ in acquired]


@given(st.data(), st.booleans())
def test_each_acquired_offset_is_a_record_a_gap_or_unreadable_whatever_the_bytes(
    data: st.DataObject, check_crc: bool
) -> None:
    """A lost offset would keep its lock until that times out, and a doubled one would fail the acknowledgements."""
    records = bytearray(b"".join(batch(3 * number, data.draw(st.integers(1, 3))) for number in range(4)))
    for index in data.draw(st.lists(st.integers(0, len(records) - 1), max_size=3)):
        records[index] = data.draw(st.integers(0, 255))
    kept = data.draw(st.integers(0, len(records)) | st.just(len(records)))
    bounds = sorted(data.draw(st.sets(st.integers(0, 14), min_size=2, max_size=6)))
    acquired = [(first, last, 1) for first, last in zip(bounds[::2], bounds[1::2], strict=False)]
    seen: list[int] = []
    for found in read(bytes(records[:kept]), *acquired, check_crc=check_crc):
        offsets = {record.offset for record in found.records}
        offsets.update(offset for first, last in found.gaps() for offset in range(first, last + 1))
        wanted = range(found.first, found.last + 1)
        assert offsets == set(wanted) if found.unreadable is None else not offsets
        assert len(found.records) <= len(offsets)
        seen += wanted
    assert seen == [offset for first, last, _ in acquired for offset in range(first, last + 1)]


def test_acquired_records_after_a_cut_response_are_released_not_lost() -> None:
    whole, cut = read(batch(0, 3) + batch(3, 3)[:-5], (0, 5, 1))
    assert shown(whole) == (0, 2, [0, 1, 2], [])
    assert cut.unreadable is not None
    assert (cut.first, cut.last, cut.unreadable.outcome) == (3, 5, AcknowledgeType.RELEASE)


@pytest.mark.parametrize("acquired", [[(3, 2, 1)], [(-1, 2, 1)], [(0, 4, 1), (4, 5, 1)], [(5, 6, 1), (0, 1, 1)]])
def test_ranges_that_cannot_be_acquired_are_refused(acquired: list[tuple[int, int, int]]) -> None:
    with pytest.raises(WireError, match="acquired range"):
        read(batch(0, 9), *acquired)
