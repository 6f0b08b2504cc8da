"""Records decoded to columns equal those of the plain decoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.records import InvalidRecord, Record
from broker.wire.records.columns import read_columns
from tests.support.plain_records import PlainRecord, read_plainly
from tests.support.record_strategies import TIME, encoded_records, records_lists


def read(data: bytes, count: int) -> list[PlainRecord]:
    return list(zip(*read_columns(data, count), strict=True))


@given(records_lists)
def test_columns_hold_the_same_values_as_the_plain_reader(records: list[Record]) -> None:
    data = encoded_records(records)
    assert read(data, len(records)) == read_plainly(data, len(records))


@given(records_lists, st.data())
def test_damaged_records_are_read_or_refused_as_by_the_plain_reader(records: list[Record], draw: st.DataObject) -> None:
    data = bytearray(encoded_records(records))
    for at in draw.draw(st.lists(st.integers(0, len(data) - 1), max_size=3)):
        data[at] = draw.draw(st.integers(0, 255))
    damaged = bytes(data[: draw.draw(st.sampled_from([len(data), len(data), len(data) // 2]))])
    count = len(records) + draw.draw(st.sampled_from([0, 0, 0, -1, 1, 2**31]))
    try:
        expected = read_plainly(damaged, count)
    except InvalidRecord:
        with pytest.raises(InvalidRecord):
            read(damaged, count)
    else:
        assert read(damaged, count) == expected


@pytest.mark.parametrize("step", [0, 1, -7])
def test_a_long_run_of_one_shape_is_read_over_all_sizes_of_offset_deltas(step: int) -> None:
    records = [Record(timestamp=TIME + step * n, key=b"%06d" % n, value=b"%094d" % n) for n in range(20_000)]
    data = encoded_records(records)
    assert read(data, len(records)) == [(n, step * n, b"%06d" % n, b"%094d" % n, ()) for n in range(20_000)]


def test_runs_with_gaps_in_their_offsets_are_read_after_compaction() -> None:
    records = [Record(offset=3 * n, timestamp=TIME, value=b"%03d" % n) for n in range(100)]
    assert read(encoded_records(records), 100) == [(3 * n, 0, None, b"%03d" % n, ()) for n in range(100)]


@pytest.mark.parametrize("offset", [-5, 2**20, 2**33, 2**62])
def test_runs_with_unusual_offset_deltas_are_read(offset: int) -> None:
    first = Record(offset=10, timestamp=TIME, value=b"x")
    records = [first, *(Record(offset=offset + n, timestamp=TIME, value=b"%03d" % n) for n in range(50))]
    data = encoded_records(records)
    assert read(data, 51) == read_plainly(data, 51)
