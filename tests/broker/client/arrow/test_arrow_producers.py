"""The producers of records in Arrow: ids, epochs and sequence numbers, derived from batch headers and offsets."""

from typing import Any

import pyarrow as pa
import pytest

from broker.client.arrow import PRODUCER_COLUMNS, decode_arrow, schema_of
from broker.wire.records import Compression, Record, encode_batch

LAST = 2**31 - 1


def sent(first: int, count: int, **fields: Any) -> bytes:
    """A batch of `count` records, beginning at an offset."""
    return encode_batch([Record(value=b"v") for _ in range(count)], base_offset=first, **fields)


def decoded(data: bytes, *columns: str, **settings: Any) -> list[tuple[Any, ...]]:
    batches = [each.rows for each in decode_arrow(data, "t", 0, columns=columns, **{"from_offset": 0, **settings})]
    assert all(batch.schema == schema_of(columns) for batch in batches)
    return [tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist()]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_records_have_the_producer_of_their_batch_and_count_on_from_its_base_sequence(compression: Compression) -> None:
    data = (
        sent(0, 2, producer_id=2**40, producer_epoch=3, base_sequence=10, compression=compression)
        + sent(2, 1, compression=compression)
        + sent(3, 2, producer_id=0, producer_epoch=0, base_sequence=0, compression=compression)
    )
    assert decoded(data, "offset", *PRODUCER_COLUMNS) == [
        (0, 2**40, 3, 10),
        (1, 2**40, 3, 11),
        (2, None, None, None),
        (3, 0, 0, 0),
        (4, 0, 0, 1),
    ]
    assert decoded(data, "sequence", from_offset=1) == [(11,), (None,), (0,), (1,)]


def test_sequence_numbers_wrap() -> None:
    data = sent(0, 4, producer_id=1, producer_epoch=0, base_sequence=LAST - 1)
    assert decoded(data, "sequence") == [(LAST - 1,), (LAST,), (0,), (1,)]


def test_records_keep_their_sequence_numbers_when_compaction_removes_others() -> None:
    left = [Record(offset=offset, value=b"v") for offset in (11, 14)]
    data = encode_batch(left, base_offset=10, last_offset=15, producer_id=1, producer_epoch=0, base_sequence=100)
    assert decoded(data, "offset", "sequence") == [(11, 101), (14, 104)]


def test_batch_of_a_producer_without_sequence_numbers_has_none() -> None:
    """Coordinators write such batches in transactions."""
    assert decoded(sent(0, 1, producer_id=5, producer_epoch=1), *PRODUCER_COLUMNS) == [(5, 1, None)]


def test_columns_of_producers_are_cut_with_the_rows() -> None:
    data = sent(0, 20_000, producer_id=1, producer_epoch=0, base_sequence=5)
    assert [sequence for (sequence,) in decoded(data, "sequence")] == list(range(5, 20_005))
